//! Telemetry: `tracing` breadcrumbs, and the names of the metrics that count them.
//!
//! A breadcrumb is a `tracing` event about a leased item, always with its queue, key and fence.
//! Metrics use the `metrics` facade: without a recorder they cost almost nothing. Neither ever
//! contains a payload.

use std::time::Duration;

use tidelock_store::{Conflict, Lease, LeaseToken, QueueName, RecordKey, StreamName, WorkerName};

use crate::claims::ClaimKey;
use crate::reactions::keys;

/// Leases granted to this process, by queue.
pub const LEASED: &str = "tidelock_leased_total";
/// Leases that ended, by queue and by `exit`: acked, retried, blocked, deferred, released or lost.
pub const SETTLED: &str = "tidelock_settled_total";
/// Leases granted to this process on items whose earlier leases had expired since their last
/// progress, by queue.
pub const EXPIRED: &str = "tidelock_expired_total";
/// Duration of the work on an item in seconds, by queue.
pub const WORKED: &str = "tidelock_work_seconds";
/// Items this process is working on.
pub const RUNNING: &str = "tidelock_running";
/// Events routed, by reaction.
pub const ROUTED: &str = "tidelock_routed_total";
/// Events whose route failed, by reaction.
pub const UNROUTED: &str = "tidelock_unrouted_total";
/// Events handled, by reaction.
pub const HANDLED: &str = "tidelock_handled_total";
/// Conflicts with a concurrent change of a stream or a scope, by origin: `execute`, `scope`, or a
/// reaction.
pub const CONTENDED: &str = "tidelock_conflicts_total";
/// Claim attempts, by kind and by `outcome`.
pub const CLAIMED: &str = "tidelock_claims_total";
/// Claim attempts that found the claim held, by kind.
pub const CLAIMS_CONTENDED: &str = "tidelock_claims_contended_total";

/// Reports a granted lease.
pub(crate) fn leased(lease: &Lease) {
    let queue = lease.item.queue.as_str().to_owned();
    metrics::counter!(LEASED, "queue" => queue.clone()).increment(1);
    tracing::debug!(%queue, key = %lease.item.key, fence = %lease.fence, at = %lease.at, mark = %lease.mark, "leased");
    if lease.expiries > 0 {
        metrics::counter!(EXPIRED, "queue" => queue.clone()).increment(1);
        tracing::warn!(%queue, key = %lease.item.key, expiries = lease.expiries, "expired");
    }
}

/// Reports the end of a lease.
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

/// Records the duration of the work on an item of this queue.
pub(crate) fn worked(queue: &QueueName, took: Duration) {
    metrics::histogram!(WORKED, "queue" => queue.as_str().to_owned()).record(took.as_secs_f64());
}

/// Reports a conflict of a decision on a stream.
pub(crate) fn contended(stream: &StreamName, attempts: u32) {
    metrics::counter!(CONTENDED, "by" => "execute").increment(1);
    tracing::debug!(by = "execute", key = stream.as_str(), attempts, "contended");
}

/// Reports a conflict of a scope mutation.
pub(crate) fn scope_contended(key: &RecordKey, attempts: u32) {
    metrics::counter!(CONTENDED, "by" => "scope").increment(1);
    tracing::debug!(by = "scope", key = key.as_str(), attempts, "contended");
}

/// Reports a conflict of a decision staged by a reaction's handler.
pub(crate) fn reaction_contended(token: &LeaseToken, conflict: &Conflict, attempts: usize) {
    let by = keys::reaction_of(&token.item.queue).unwrap_or_default().to_owned();
    metrics::counter!(CONTENDED, "by" => by.clone()).increment(1);
    tracing::debug!(%by, key = %token.item.key, fence = %token.fence, attempts, %conflict, "contended");
}

/// Reports that a unit of work lost a race.
pub(crate) fn transact_contended(conflict: &Conflict, attempts: usize) {
    metrics::counter!(CONTENDED, "by" => "transact").increment(1);
    tracing::debug!(by = "transact", attempts, %conflict, "contended");
}

/// Reports the outcome of a claim attempt.
pub(crate) fn claimed(key: &ClaimKey, by: &WorkerName, outcome: &'static str) {
    metrics::counter!(CLAIMED, "kind" => key.kind(), "outcome" => outcome).increment(1);
    tracing::debug!(key = key.as_str(), %by, outcome, "claimed");
}

/// Reports that a waiter found a claim held.
pub(crate) fn claim_contended(
    key: &ClaimKey,
    waiter: &WorkerName,
    holder: &WorkerName,
    attempts: u32,
) {
    metrics::counter!(CLAIMS_CONTENDED, "kind" => key.kind()).increment(1);
    tracing::debug!(key = key.as_str(), %waiter, %holder, attempts, "claim contended");
}

/// Reports that a wait for a claim ended at its deadline.
pub(crate) fn claim_wait_timed_out(
    key: &ClaimKey,
    waiter: &WorkerName,
    holder: &WorkerName,
    attempts: u32,
) {
    metrics::counter!(CLAIMS_CONTENDED, "kind" => key.kind()).increment(1);
    // Not a warning: contention is normal.
    tracing::info!(key = key.as_str(), %waiter, %holder, attempts, "timed out waiting for a claim");
}

/// Counts a running item while it lives.
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
