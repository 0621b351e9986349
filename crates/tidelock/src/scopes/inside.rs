//! Knows which scopes' mutators are running around the code that asks.
//!
//! A mutator that called into its own scope would wait for itself. While a mutator runs, and whenever it is polled, its scope is on a stack that belongs to
//! the thread; so whatever it calls, itself or through others, finds it there. A task that a mutator spawns is somebody else: if the mutator waits
//! for it, the budget ends that.

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

/// Begins something inside a scope, and goes on with it there.
pub(crate) fn inside<F: Future + Unpin>(scope: Identity, begin: impl FnOnce() -> F) -> Inside<F> {
    let _around = Around::enter(scope);
    Inside { scope, doing: begin() }
}

pub(crate) struct Inside<F> {
    scope: Identity,
    doing: F,
}

impl<F: Future + Unpin> Future for Inside<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _around = Around::enter(self.scope);
        Pin::new(&mut self.doing).poll(context)
    }
}
