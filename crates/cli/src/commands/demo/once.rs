//! Scene: ten clients with one key make one effect and get ten equal responses (CLAIM-1).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidelock::Tidelock;
use tokio::sync::Barrier;

use super::stage::{Stage, joined};
use crate::failure::{Failure, Result};

const CLIENTS: usize = 10;

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<()> {
    stage.scene("Ten clients, one key: one effect")?;
    stage.say(&format!(
        "{CLIENTS} clients send the same payment under one key, all at the same time"
    ))?;
    let payments = Arc::new(AtomicUsize::new(0));
    let receipts = pay_all(stage, &payments).await?;
    let made = payments.load(Ordering::SeqCst);
    if let Some(first) = receipts.first() {
        stage.say(&format!("one of them pays, the others wait and are answered: {first}"))?;
    }
    stage.prove("one payment was made", made == 1, &made.to_string())?;
    let equal = receipts.iter().all(|receipt| Some(receipt) == receipts.first());
    stage.prove(
        &format!("{CLIENTS} clients have the same receipt"),
        equal,
        &format!("{receipts:?}"),
    )
}

async fn pay_all(stage: &Stage<'_>, payments: &Arc<AtomicUsize>) -> Result<Vec<String>> {
    let start = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let store = if client % 2 == 0 { &stage.store } else { &stage.other };
            let key = stage.name("pay:42");
            let claim = Tidelock::over(store.clone()).claims().idempotency(key).fingerprint(&700);
            let (start, payments) = (start.clone(), payments.clone());
            tokio::spawn(async move {
                start.wait().await;
                claim.once(Duration::from_secs(60), async || pay(&payments, client).await).await
            })
        })
        .collect();
    let mut receipts = Vec::with_capacity(CLIENTS);
    for client in clients {
        let receipt = joined(client).await?;
        receipts.push(
            receipt
                .map_err(|error| Failure::Broken(format!("a client got no receipt: {error}")))?,
        );
    }
    Ok(receipts)
}

/// As slow as a payment is.
async fn pay(payments: &AtomicUsize, client: usize) -> Result<String, String> {
    tokio::time::sleep(Duration::from_millis(20)).await;
    let nth = payments.fetch_add(1, Ordering::SeqCst) + 1;
    Ok(format!("receipt {nth}, paid by client {client}"))
}
