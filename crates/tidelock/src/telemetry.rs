//! The names under which Tidelock tells what it does: breadcrumbs, and the metrics that count them.
//!
//! A breadcrumb is a `tracing` event on the way of a leased item, always with its queue, key and
//! fence. Metrics go through the `metrics` facade: without a recorder they cost next to nothing.
//! Neither ever carries a payload.

use std::time::Duration;

use tidelock_store::{Conflict, Lease, LeaseToken, QueueName, RecordKey, StreamName, WorkerName};

use crate::claims::ClaimKey;
use crate::reactions::keys;

/// Leases granted to this process, by queue.
pub const LEASED: &str = "tidelock_leased_total";
/// Leases that ended, by queue and by `exit`: acked, retried, blocked, deferred, released or lost.
pub const SETTLED: &str = "tidelock_settled_total";
/// Leases granted to this process on items whose earlier leases had run out since their last
/// progress, by queue.
pub const EXPIRED: &str = "tidelock_expired_total";
/// How long the work on an item took, in seconds, by queue.
pub const WORKED: &str = "tidelock_work_seconds";
/// Items that this process works on at the moment.
pub const RUNNING: &str = "tidelock_running";
/// Events routed, by reaction.
pub const ROUTED: &str = "tidelock_routed_total";
/// Events whose route failed, by reaction.
pub const UNROUTED: &str = "tidelock_unrouted_total";
/// Events handled, by reaction.
pub const HANDLED: &str = "tidelock_handled_total";
/// Decisions that were too late because somebody else had changed a stream or a scope, by who took
/// them: `execute`, `scope`, or a reaction.
pub const CONTENDED: &str = "tidelock_conflicts_total";
/// Claims asked for, by kind and by `outcome`.
pub const CLAIMED: &str = "tidelock_claims_total";
/// Claims that somebody else had when they were asked for, by kind.
pub const CLAIMS_CONTENDED: &str = "tidelock_claims_contended_total";

/// An item was leased.
pub(crate) fn leased(lease: &Lease) {
    let queue = lease.item.queue.as_str().to_owned();
    metrics::counter!(LEASED, "queue" => queue.clone()).increment(1);
    tracing::debug!(%queue, key = %lease.item.key, fence = %lease.fence, at = %lease.at, mark = %lease.mark, "leased");
    if lease.expiries > 0 {
        metrics::counter!(EXPIRED, "queue" => queue.clone()).increment(1);
        tracing::warn!(%queue, key = %lease.item.key, expiries = lease.expiries, "expired");
    }
}

/// A lease ended like this.
pub(crate) fn settled(token: &LeaseToken, exit: &'static str, error: Option<&str>) {
    let queue = token.item.queue.as_str().to_owned();
    metrics::counter!(SETTLED, "queue" => queue.clone(), "exit" => exit).increment(1);
    match error {
        None => tracing::debug!(%queue, key = %token.item.key, fence = %token.fence, "{exit}"),
        Some(error) => {
            tracing::warn!(%queue, key = %token.item.key, fence = %token.fence, error, "{exit}");
        }
    }
}

/// The work on an item of this queue took this long.
pub(crate) fn worked(queue: &QueueName, took: Duration) {
    metrics::histogram!(WORKED, "queue" => queue.as_str().to_owned()).record(took.as_secs_f64());
}

/// A caller's decision about a stream came too late, for the so-manieth time.
pub(crate) fn contended(stream: &StreamName, attempts: u32) {
    metrics::counter!(CONTENDED, "by" => "execute").increment(1);
    tracing::debug!(by = "execute", key = stream.as_str(), attempts, "contended");
}

/// A mutation of the scope that is kept there came too late, for the so-manieth time.
pub(crate) fn scope_contended(key: &RecordKey, attempts: u32) {
    metrics::counter!(CONTENDED, "by" => "scope").increment(1);
    tracing::debug!(by = "scope", key = key.as_str(), attempts, "contended");
}

/// A decision that was to land with a handler's ack came too late, for the so-manieth time.
pub(crate) fn reaction_contended(token: &LeaseToken, conflict: &Conflict, attempts: usize) {
    let by = keys::reaction_of(&token.item.queue).unwrap_or_default().to_owned();
    metrics::counter!(CONTENDED, "by" => by.clone()).increment(1);
    tracing::debug!(%by, key = %token.item.key, fence = %token.fence, attempts, %conflict, "contended");
}

/// A unit of work lost a race, for the so-manieth time.
pub(crate) fn transact_contended(conflict: &Conflict, attempts: usize) {
    metrics::counter!(CONTENDED, "by" => "transact").increment(1);
    tracing::debug!(by = "transact", attempts, %conflict, "contended");
}

/// A claim was asked for, with this outcome.
pub(crate) fn claimed(key: &ClaimKey, by: &WorkerName, outcome: &'static str) {
    metrics::counter!(CLAIMED, "kind" => key.kind(), "outcome" => outcome).increment(1);
    tracing::debug!(key = key.as_str(), %by, outcome, "claimed");
}

/// Somebody else had a claim when this waiter looked for the so-manieth time.
pub(crate) fn claim_contended(
    key: &ClaimKey,
    waiter: &WorkerName,
    holder: &WorkerName,
    attempts: u32,
) {
    metrics::counter!(CLAIMS_CONTENDED, "kind" => key.kind()).increment(1);
    tracing::debug!(key = key.as_str(), %waiter, %holder, attempts, "claim contended");
}

/// Somebody waited for a claim until patience was over.
pub(crate) fn claim_in_vain(
    key: &ClaimKey,
    waiter: &WorkerName,
    holder: &WorkerName,
    attempts: u32,
) {
    metrics::counter!(CLAIMS_CONTENDED, "kind" => key.kind()).increment(1);
    // Nothing is wrong with that: who wants the same thing at once takes turns.
    tracing::info!(key = key.as_str(), %waiter, %holder, attempts, "waited for a claim in vain");
}

/// Counts a running item for as long as it lives.
#[derive(Debug)]
pub(crate) struct Running;

impl Running {
    pub(crate) fn begin() -> Self {
        metrics::gauge!(RUNNING).increment(1.0);
        Self
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        metrics::gauge!(RUNNING).decrement(1.0);
    }
}
