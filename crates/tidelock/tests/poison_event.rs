//! The `poison_event` example, on every store without a server.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)] // its `main` reads the command line, which is ours here
#[path = "../examples/poison_event.rs"]
mod poison_event;

use tidelock::prelude::*;

fn expected() -> Vec<String> {
    let lines = [
        "order-2 is blocked with 2 events to go: cannot print an amount of -300 cents",
        "unblocked 1",
        "invoice/order-1/1: 12.50",
        "invoice/order-2/1: credit 3.00",
        "invoice/order-2/2: 5.00",
        "invoice/order-3/1: 9.99",
    ];
    lines.map(str::to_owned).to_vec()
}

/// REACT-4.
#[tokio::test]
async fn the_poison_is_found_fixed_and_unblocked_in_memory() {
    let tidelock = Tidelock::open("memory:").await.unwrap();
    assert_eq!(poison_event::play(&tidelock).await.unwrap(), expected());
}

/// REACT-4.
#[cfg(feature = "sqlite")]
#[tokio::test]
async fn the_poison_is_found_fixed_and_unblocked_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let tidelock = Tidelock::open(&url).await.unwrap();
    assert_eq!(poison_event::play(&tidelock).await.unwrap(), expected());
}
