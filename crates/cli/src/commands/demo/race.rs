//! Scene: two writers race on a stream, and one gets the conflict with the expected and actual
//! version (LOG-1, LOG-3).

use std::sync::Arc;

use tidelock::ExpectedVersion;
use tidelock::store::{Commit, CommitOutcome, NewEvent, Store, StoreExt, StreamName, StreamQuery};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;

use super::stage::{Stage, joined};
use crate::failure::Result;

const CANCELLED: &str = "OrderCancelled";
const SHIPPED: &str = "OrderShipped";

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<()> {
    stage.scene("Two writers race on one stream")?;
    let order = stage.stream("order-7")?;
    place(stage, &order).await?;
    let (winner, loser, event, conflict) = match race(stage, &order).await? {
        (CommitOutcome::Committed(_), CommitOutcome::Conflict(conflict)) => {
            ("anna", "ben", CANCELLED, conflict)
        }
        (CommitOutcome::Conflict(conflict), CommitOutcome::Committed(_)) => {
            ("ben", "anna", SHIPPED, conflict)
        }
        both => return stage.broken("exactly one of the two wins", &format!("{both:?}")),
    };
    stage.say(&format!("{winner}: committed, {event} is in the stream"))?;
    stage.say(&format!("{loser}: refused, {conflict}"))?;
    let found = types(&*stage.store, &order).await?;
    let claim = format!("the stream reads OrderPlaced, {event}: nothing of {loser}'s is there");
    stage.prove(&claim, found == ["OrderPlaced", event], &format!("{found:?}"))
}

async fn place(stage: &mut Stage<'_>, order: &StreamName) -> Result<()> {
    let placed = NewEvent::of("OrderPlaced", "sku-1")?;
    let outcome = stage.store.append(order, ExpectedVersion::NoStream, vec![placed]).await?;
    stage.committed(outcome)?;
    stage.say(&format!("an order is placed: stream {order:?} is at version 1"))
}

/// Both concurrently, each on its own handle.
async fn race(stage: &mut Stage<'_>, order: &StreamName) -> Result<(CommitOutcome, CommitOutcome)> {
    stage.say(&stage.how_opened("anna and ben"))?;
    let anna = decide(&*stage.store, order, CANCELLED).await?;
    let ben = decide(&*stage.other, order, SHIPPED).await?;
    stage
        .say("both read the stream at version 1; anna wants to cancel the order, ben to ship it")?;
    stage.say("both append at the same time, expecting the version that they read")?;
    let start = Arc::new(Barrier::new(2));
    let (anna, ben) = (write(&stage.store, anna, &start), write(&stage.other, ben, &start));
    Ok((joined(anna).await??, joined(ben).await??))
}

/// What every writer of events does: reads, decides, and expects the version it read.
async fn decide(store: &dyn Store, order: &StreamName, event: &str) -> Result<Commit> {
    let read = store.rows(StreamQuery::forward(order)).all().await?;
    let expected = read
        .last()
        .map(|event| event.version)
        .map_or(ExpectedVersion::NoStream, ExpectedVersion::Exact);
    Ok(Commit::new().append(order, expected, [NewEvent::of(event, &())?]))
}

fn write(
    store: &Arc<dyn Store>,
    commit: Commit,
    start: &Arc<Barrier>,
) -> JoinHandle<tidelock::store::Result<CommitOutcome>> {
    let (store, start) = (store.clone(), start.clone());
    tokio::spawn(async move {
        start.wait().await;
        store.commit(commit).await
    })
}

async fn types(store: &dyn Store, stream: &StreamName) -> Result<Vec<String>> {
    let events = store.read_whole_stream(stream).await?;
    Ok(events.iter().map(|event| event.event_type.to_string()).collect())
}
