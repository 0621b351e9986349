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
    static ACTIVE: RefCell<Vec<Identity>> = const { RefCell::new(Vec::new()) };
}

/// Whether the current code runs inside this scope's mutator.
pub(crate) fn is_inside(scope: Identity) -> bool {
    ACTIVE.with_borrow(|active| active.contains(&scope))
}

/// Removes the scope from the stack on drop, also when the mutator panics.
struct ActiveScope;

impl ActiveScope {
    fn enter(scope: Identity) -> Self {
        ACTIVE.with_borrow_mut(|active| active.push(scope));
        Self
    }
}

impl Drop for ActiveScope {
    fn drop(&mut self) {
        ACTIVE.with_borrow_mut(Vec::pop);
    }
}

/// Starts a future inside a scope at its first poll, and polls it there.
pub(crate) fn inside<B: FnOnce() -> F, F>(scope: Identity, begin: B) -> Inside<B, F> {
    Inside { scope, begin: Some(begin), running: None }
}

pub(crate) struct Inside<B, F> {
    scope: Identity,
    begin: Option<B>,
    running: Option<F>,
}

impl<B: FnOnce() -> F + Unpin, F: Future + Unpin> Future for Inside<B, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _active = ActiveScope::enter(self.scope);
        let begin = self.begin.take();
        let running =
            self.running.get_or_insert_with(|| begin.expect("it has either begun or not")());
        Pin::new(running).poll(context)
    }
}
