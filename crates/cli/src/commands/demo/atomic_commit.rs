//! Scene: a commit across a stream, a record and a lease is atomic (COMMIT-1, COMMIT-2).

use std::time::Duration;

use tidelock::ExpectedVersion;
use tidelock::store::{
    Commit, CommitOutcome, ExpectedRevision, Item, ItemFilter, ItemQuery, ItemRef, Lease,
    LeaseRequest, Mark, NamePattern, NewEvent, QueueName, RawJson, RecordKey, RecordWrite,
    Settlement, StoreExt, StreamName, Version, Wake,
};

use super::stage::{Stage, worker};
use crate::failure::Result;

/// What one payment changes.
struct Payment {
    stream: StreamName,
    receipt: RecordKey,
    queue: QueueName,
}

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<()> {
    stage.scene("One commit across a stream, a record and a lease")?;
    let payment = Payment {
        stream: stage.stream("account-1")?,
        receipt: stage.record("receipt-1")?,
        queue: stage.queue("payments")?,
    };
    lands_whole(stage, &payment).await?;
    let lease = leaves_nothing(stage, &payment).await?;
    goes_on(stage, &payment, &lease).await
}

async fn lands_whole(stage: &mut Stage<'_>, payment: &Payment) -> Result<()> {
    let lease = payment.lease(stage, 1).await?;
    stage.say(&format!("a payment is due; a worker leases it under fence {}", lease.fence))?;
    let commit = payment.commit(&lease, ExpectedVersion::NoStream)?;
    stage.committed(stage.store.commit(commit).await?)?;
    stage.say(
        "one commit: append Paid to the stream, write the receipt, end the lease: committed",
    )?;
    let found = payment.read(stage).await?;
    let holds =
        found.events == Some(Version::FIRST) && found.receipt.is_some() && found.holder().is_none();
    stage.prove(
        "all three are there: 1 event, the receipt, and the lease is over",
        holds,
        &format!("{found:?}"),
    )
}

async fn leaves_nothing(stage: &mut Stage<'_>, payment: &Payment) -> Result<Lease> {
    let lease = payment.lease(stage, 2).await?;
    stage
        .say(&format!("another payment is due; a worker leases it under fence {}", lease.fence))?;
    let before = payment.read(stage).await?;
    // The record and the lease parts would hold; the stream is at version 1 by now, so the whole
    // commit is refused.
    let commit = payment.commit(&lease, ExpectedVersion::NoStream)?;
    match stage.store.commit(commit).await? {
        CommitOutcome::Conflict(conflict) => {
            stage.say(&format!(
                "the same three parts, but the first one does not hold: refused, {conflict}"
            ))?;
        }
        other => {
            return stage.broken(
                "a commit with a part that does not hold is refused",
                &format!("{other:?}"),
            );
        }
    }
    let after = payment.read(stage).await?;
    let holds = after == before && after.holder() == Some("teller");
    let claim =
        "nothing of it is there: still 1 event, the old receipt, and the lease still stands";
    stage.prove(claim, holds, &format!("{after:?}, before it was {before:?}"))?;
    Ok(lease)
}

/// A refused worker still holds its lease and can continue. The store is left without leases.
async fn goes_on(stage: &mut Stage<'_>, payment: &Payment, lease: &Lease) -> Result<()> {
    let commit = payment.commit(lease, ExpectedVersion::Exact(Version::FIRST))?;
    stage.committed(stage.store.commit(commit).await?)?;
    stage.say("the worker reads again, and sends all three with the current version: committed")
}

/// What the store has about a payment.
#[derive(Debug, PartialEq)]
struct Found {
    events: Option<Version>,
    receipt: Option<(u64, String)>,
    item: Option<Item>,
}

impl Found {
    fn holder(&self) -> Option<&str> {
        Some(self.item.as_ref()?.holder.as_ref()?.worker.as_str())
    }
}

impl Payment {
    async fn lease(&self, stage: &mut Stage<'_>, mark: u64) -> Result<Lease> {
        let item = ItemRef::parse(self.queue.as_str(), "payment-1")?;
        let wake = Commit::new().wake(Wake::to_mark(item, Mark::new(mark)?));
        stage.committed(stage.store.commit(wake).await?)?;
        let request =
            LeaseRequest::new(&self.queue, &worker("teller")?, Duration::from_secs(60), 1);
        match stage.store.lease(request).await?.leases.pop() {
            Some(lease) => Ok(lease),
            None => stage.broken("an item that is due can be leased", "nothing to lease"),
        }
    }

    fn commit(&self, lease: &Lease, expected: ExpectedVersion) -> Result<Commit> {
        let receipt = RawJson::new(&format!("paid under fence {}", lease.fence))?;
        Ok(Commit::new()
            .append(&self.stream, expected, [NewEvent::of("Paid", &100)?])
            .write(RecordWrite::put(&self.receipt, ExpectedRevision::Any, receipt))
            .settle(Settlement::ack(lease.token(), lease.mark)))
    }

    /// Reads through the other handle: a commit is visible to every reader.
    async fn read(&self, stage: &Stage<'_>) -> Result<Found> {
        let events = stage.other.read_whole_stream(&self.stream).await?;
        let receipt = stage.other.get_one(&self.receipt).await?.into_live();
        let filter =
            ItemFilter { queue: NamePattern::is(self.queue.as_str()), ..ItemFilter::default() };
        let mut items = stage.other.rows(ItemQuery::new(filter)).all().await?;
        Ok(Found {
            events: events.last().map(|event| event.version),
            receipt: receipt.map(|record| (record.revision.get(), record.value.to_string())),
            item: items.pop(),
        })
    }
}
