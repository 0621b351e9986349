//! Knows which scopes' mutators are running around the code that asks.
//!
//! A mutator that called into its own scope would wait for itself. While a mutator runs, and
//! whenever it is polled, its scope is on a stack that belongs to the thread; so whatever it calls,
//! itself or through others, finds it there. A task that a mutator spawns is somebody else: if the
//! mutator waits for it, the budget ends that.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Which scope, for as long as somebody has a handle on it: where it is in memory.
pub(crate) type Identity = usize;

thread_local! {
    static AROUND: RefCell<Vec<Identity>> = const { RefCell::new(Vec::new()) };
}

/// Whether this scope's mutator is running around whoever asks.
pub(crate) fn is_around(scope: Identity) -> bool {
    AROUND.with_borrow(|around| around.contains(&scope))
}

/// Takes a scope off the stack, also when its mutator panics.
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

/// Begins something inside a scope, when it is first polled, and goes on with it there.
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
