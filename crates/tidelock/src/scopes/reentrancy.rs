//! Reentrancy detection: a mutator must not call into its own scope, where it would deadlock.
//!
//! While a mutator is polled, its scope is on a thread-local stack, so every call made from it,
//! directly or indirectly, is detected. A task spawned by a mutator is not; if the mutator waits
//! for it, the budget ends the wait.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Identity of a scope while a handle to it exists: its address.
pub(crate) type Identity = usize;

thread_local! {
    static AROUND: RefCell<Vec<Identity>> = const { RefCell::new(Vec::new()) };
}

/// Whether the current code runs inside this scope's mutator.
pub(crate) fn is_around(scope: Identity) -> bool {
    AROUND.with_borrow(|around| around.contains(&scope))
}

/// Removes the scope from the stack on drop, also when the mutator panics.
struct Around;

impl Around {
    fn enter(scope: Identity) -> Self {
        AROUND.with_borrow_mut(|around| around.push(scope));
        Self
    }
}

impl Drop for Around {
    fn drop(&mut self) {
        AROUND.with_borrow_mut(Vec::pop);
    }
}

/// Starts a future inside a scope at its first poll, and polls it there.
pub(crate) fn inside<B: FnOnce() -> F, F>(scope: Identity, begin: B) -> Inside<B, F> {
    Inside { scope, begin: Some(begin), doing: None }
}

pub(crate) struct Inside<B, F> {
    scope: Identity,
    begin: Option<B>,
    doing: Option<F>,
}

impl<B: FnOnce() -> F + Unpin, F: Future + Unpin> Future for Inside<B, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _around = Around::enter(self.scope);
        let begin = self.begin.take();
        let doing = self.doing.get_or_insert_with(|| begin.expect("it has either begun or not")());
        Pin::new(doing).poll(context)
    }
}
