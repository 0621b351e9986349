//! A basket that two processes fill concurrently.
//!
//! Ten requests of one session put items into its basket, half of them through another handle to
//! the store, like another process. Each changes two fields that belong together. One request is
//! sent twice, because its response was lost. The basket has everything once, its sum is right, and
//! after the log-out no late request brings it back.
//!
//! ```sh
//! cargo run -p tidelock --example basket                       # in memory
//! cargo run -p tidelock --example basket -- sqlite:shop.db
//! ```

use std::error::Error;

use serde::{Deserialize, Serialize};
use tidelock::prelude::*;
use tidelock::scopes::ScopeError;
use tidelock::store::CommitId;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const REQUESTS: i64 = 10;

#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Basket {
    pub(crate) items: Vec<String>,
    pub(crate) cents: i64,
}

/// One request: adds an item and its price atomically, and once however often it is sent.
async fn add(basket: &Scope<Basket>, number: i64) -> Result<usize> {
    let put = |basket: &mut Basket| {
        basket.items.push(format!("item {number}"));
        basket.cents += number * 100;
        basket.items.len()
    };
    Ok(basket.operation_id(format!("request-{number}")).mutate(put).await?.value)
}

/// Fills the basket of a session and closes it. Returns its contents.
pub(crate) async fn shop(one: &Tidelock, other: &Tidelock, session: &str) -> Result<Basket> {
    let handles =
        [one, other].map(|tidelock| tidelock.scope::<Basket>(ScopeKind::SESSION, session));
    let mut requests = tokio::task::JoinSet::new();
    for number in (1..=REQUESTS).chain([REQUESTS]) {
        let basket = handles[usize::from(number % 2 == 0)].clone();
        requests.spawn(async move { add(&basket, number).await });
    }
    for answer in requests.join_all().await {
        answer?;
    }
    let filled = handles[0].get().await?;
    assert_eq!(filled.items.len() as i64, REQUESTS, "nothing is lost, and nothing is there twice");
    assert_eq!(
        filled.cents,
        (1..=REQUESTS).sum::<i64>() * 100,
        "and what belongs together is together"
    );

    handles[0].delete().await?;
    let late = handles[1].push("items", "too late").await;
    assert!(matches!(late, Err(ScopeError::Gone { .. })), "a session that was closed stays closed");
    Ok(filled)
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let url = std::env::args()
        .nth(1)
        .filter(|url| url.contains(':'))
        .unwrap_or_else(|| "memory:".to_owned());
    let one = Tidelock::open(&url).await?;
    // A memory store belongs to one process; any other is opened twice, as by two processes.
    let other = if url == "memory:" { one.clone() } else { Tidelock::open(&url).await? };
    let session = CommitId::fresh().to_string();
    let basket = shop(&one, &other, &session).await?;
    println!("{} things for {} cents, and the session is closed", basket.items.len(), basket.cents);
    Ok(())
}
