//! The oversold example, on every store.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

#[path = "events/harness.rs"]
mod harness;
#[allow(dead_code)] // its `main` reads the command line, which is ours here
#[path = "../examples/oversold.rs"]
mod oversold;

use harness::{Ground, on_every_store};

on_every_store!(nothing_is_sold_twice_and_nothing_that_is_not_there);

/// EVT-8, EVT-6.
async fn nothing_is_sold_twice_and_nothing_that_is_not_there(ground: Ground) {
    let (one, other) = (ground.open().await, ground.open().await);
    let (announced, sold, left) = oversold::sell(&one, &other).await.unwrap();
    assert_eq!(announced, sold + left);
    assert!(left < 3, "a refused order wanted more than was left: {left}");
}
