//! Scene: of a hundred clients on a quota of 18, eighteen are granted (CLAIM-12).

use std::sync::Arc;

use tidelock::Outcome;
use tidelock::Tidelock;
use tidelock::claims::{ClaimError, Grant, QuotaExceeded};
use tokio::sync::Barrier;

use super::stage::{Stage, joined};
use crate::failure::{Failure, Result};

const CLIENTS: usize = 100;
const LIMIT: i64 = 18;

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<()> {
    stage.scene("A hundred clients on a quota of 18")?;
    stage
        .say(&format!("{CLIENTS} clients each want one of {LIMIT} points, all at the same time"))?;
    let (granted, refused) = take_all(stage).await?;
    stage.say(&format!("granted: {}, refused as over quota: {}", granted.len(), refused.len()))?;
    let sorted = (granted.len() as i64, granted.len() + refused.len());
    stage.prove(
        &format!("{LIMIT} were granted, and none was refused for any other reason"),
        sorted == (LIMIT, CLIENTS),
        &format!("{sorted:?}"),
    )?;
    let quota = Tidelock::over(stage.store.clone()).claims().quota(stage.name("points"), LIMIT);
    let Some(last) = granted.last() else {
        return stage.broken("a client was granted a point", "none");
    };
    quota.refund(last).await.map_err(|error| unexpected(&error))?;
    quota.refund(last).await.map_err(|error| unexpected(&error))?;
    let used = quota.usage().await.map_err(|error| unexpected(&error))?.used;
    stage.prove(
        "a point that is refunded twice is returned once",
        used == LIMIT - 1,
        &used.to_string(),
    )
}

async fn take_all(stage: &Stage<'_>) -> Result<(Vec<Grant>, Vec<QuotaExceeded>)> {
    let start = Arc::new(Barrier::new(CLIENTS));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let store = if client % 2 == 0 { &stage.store } else { &stage.other };
            let quota = Tidelock::over(store.clone()).claims().quota(stage.name("points"), LIMIT);
            let start = start.clone();
            tokio::spawn(async move {
                start.wait().await;
                quota.take(1).await
            })
        })
        .collect();
    let (mut granted, mut refused) = (Vec::new(), Vec::new());
    for client in clients {
        match joined(client).await?.map_err(|error| unexpected(&error))? {
            Outcome::Granted(grant) => granted.push(grant),
            Outcome::Refused(exceeded) => refused.push(exceeded),
        }
    }
    Ok((granted, refused))
}

fn unexpected(error: &ClaimError) -> Failure {
    Failure::Broken(format!("a quota failed: {error}"))
}
