//! Scene: a worker stalls, loses its lease, and its late commit is refused by the fence (LEASE-2,
//! LEASE-5, LEASE-6).

use std::time::Duration;

use tidelock::store::{
    Commit, CommitOutcome, ExpectedRevision, ItemRef, Lease, LeaseRequest, Mark, QueueName,
    RawJson, RecordKey, RecordWrite, Revision, Settlement, Store, StoreExt, ViolationKind, Wake,
};

use super::stage::{Stage, worker};
use crate::failure::Result;

const LEASE: Duration = Duration::from_millis(150);
/// Longer than any lease of this scene; a store that has not expired the lease by then never will.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<()> {
    stage.scene("A worker stalls and loses its lease")?;
    let (queue, result) = (stage.queue("mail")?, stage.record("mail-1/sent-by")?);
    wake(stage, &queue).await?;
    let slow = lease_once(stage, &queue).await?;
    let quick = take_over(stage, &queue, &slow).await?;
    late_commit(stage, &slow, &result).await?;
    stage.committed(stage.other.commit(sent_by("quick", &quick, &result)?).await?)?;
    stage.say(&format!("quick commits its result under fence {}: committed", quick.fence))?;
    let found = stage.store.get_one(&result).await?.into_live();
    // Revision 1 proves that slow's write never landed: quick's would have been the second.
    let holds = found
        .as_ref()
        .is_some_and(|r| r.value.as_str() == "\"quick\"" && r.revision == Revision::FIRST);
    stage.prove(
        &format!("record {result:?} says \"quick\" and was written once"),
        holds,
        &format!("{found:?}"),
    )
}

async fn wake(stage: &mut Stage<'_>, queue: &QueueName) -> Result<()> {
    let item = ItemRef::parse(queue.as_str(), "mail-1")?;
    let commit = Commit::new().wake(Wake::to_mark(item.clone(), Mark::new(1)?));
    stage.committed(stage.store.commit(commit).await?)?;
    stage.say(&format!("there is a mail to send: {item} is due"))
}

async fn lease_once(stage: &mut Stage<'_>, queue: &QueueName) -> Result<Lease> {
    let Some(lease) = lease(&*stage.store, queue, "slow", LEASE).await?.0 else {
        return stage.broken("an item that is due can be leased", "nothing to lease");
    };
    stage.say(&format!(
        "worker slow leases it for {} ms, gets fence {}, and stalls",
        LEASE.as_millis(),
        lease.fence
    ))?;
    Ok(lease)
}

/// Polls until the first lease has expired, as any idle worker does: the response says when to poll
/// again.
async fn take_over(stage: &mut Stage<'_>, queue: &QueueName, lost: &Lease) -> Result<Lease> {
    let begun = stage.store.now().await?;
    let mut asked = 0;
    loop {
        let (lease, wait) = lease(&*stage.other, queue, "quick", PATIENCE).await?;
        if let Some(lease) = lease {
            stage.say(&format!(
                "the lease expires; quick leases the item and gets fence {}, with {} expiry on record",
                lease.fence, lease.expiries
            ))?;
            let holds = lease.fence > lost.fence && lease.expiries == 1;
            stage.prove(
                "the new fence is higher than the old one",
                holds,
                &format!("{lease:?}"),
            )?;
            return Ok(lease);
        }
        if asked == 0 {
            stage.say(&format!(
                "worker quick asks for work: nothing yet, slow still holds it for {} ms",
                wait.as_millis()
            ))?;
        }
        asked += 1;
        if stage.store.now().await?.since(begun) > PATIENCE {
            return stage.broken("an expired lease can be taken over", "still nothing to lease");
        }
        tokio::time::sleep(wait).await;
    }
}

async fn late_commit(stage: &mut Stage<'_>, slow: &Lease, result: &RecordKey) -> Result<()> {
    match stage.store.commit(sent_by("slow", slow, result)?).await? {
        CommitOutcome::Conflict(conflict) if conflict.has(ViolationKind::LeaseLost) => {
            stage.say(&format!("slow resumes and commits its result: refused, {conflict}"))
        }
        other => stage.broken("a late commit is refused by the fence", &format!("{other:?}")),
    }
}

/// One lease, or how long to wait if nothing is due.
async fn lease(
    store: &dyn Store,
    queue: &QueueName,
    name: &str,
    duration: Duration,
) -> Result<(Option<Lease>, Duration)> {
    let mut leased = store.lease(LeaseRequest::new(queue, &worker(name)?, duration, 1)).await?;
    let now = store.now().await?;
    let wait = leased.next_due.map_or(LEASE, |due| due.since(now)).max(Duration::from_millis(1));
    Ok((leased.leases.pop(), wait))
}

/// The result and the end of the lease, in one commit.
fn sent_by(name: &str, lease: &Lease, result: &RecordKey) -> Result<Commit> {
    let write = RecordWrite::put(result, ExpectedRevision::Any, RawJson::new(name)?);
    Ok(Commit::new().write(write).settle(Settlement::ack(lease.token(), lease.mark)))
}
