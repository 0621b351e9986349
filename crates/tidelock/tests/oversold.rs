//! The example of the order that cannot be oversold, on every store.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

#[path = "events/ground.rs"]
mod ground;
#[allow(dead_code)] // its `main` reads the command line, which is ours here
#[path = "../examples/oversold.rs"]
mod oversold;

use ground::{Ground, on_every_store};

on_every_store!(nothing_is_sold_twice_and_nothing_that_is_not_there);

/// EVT-8, EVT-6.
async fn nothing_is_sold_twice_and_nothing_that_is_not_there(ground: Ground) {
    let (one, other) = (ground.open().await, ground.open().await);
    let (announced, sold, left) = oversold::sell(&one, &other).await.unwrap();
    assert_eq!(announced, sold + left);
    assert!(left < 3, "whoever was refused wanted more than was left: {left}");
}
