//! Telemetry: `tracing` breadcrumbs and spans, and the metrics that count them.
//!
//! Spans have the field names of OpenTelemetry's semantic conventions (`messaging.*`, `db.*`,
//! `http.*`). `handle`, `run`, `step` and `request` are at the level `info`; `execute`, `commit`
//! and `route`, which are many, at `debug`. A breadcrumb is a `tracing` event about a leased item,
//! always with its queue, key and fence. Metrics use the `metrics` facade: without a recorder they
//! cost almost nothing. None of them ever contains a payload.

use std::time::Duration;

use metrics::Unit;
use tidelock_store::{
    Commit, Conflict, Lease, LeaseToken, QueueName, RecordKey, Store, StoredEvent, StreamName,
    Timestamp, WorkerName,
};
use tracing::Span;

use crate::claims::ClaimKey;
use crate::reactions::{ReactionName, keys};
use crate::runs::summary::Summary;
use crate::runs::{RunId, RunState, ScheduleName, StepName, WorkflowName};
use crate::trace_context::{TraceContext, Traces, continue_trace};

/// Leases granted to this process, by queue.
pub const LEASED: &str = "tidelock_leased_total";
/// Leases that ended, by queue and by `exit`: acked, retried, blocked, deferred, released or lost.
pub const SETTLED: &str = "tidelock_settled_total";
/// Leases granted to this process on items whose earlier leases had expired since their last
/// progress, by queue.
pub const EXPIRED: &str = "tidelock_expired_total";
/// Items enqueued by this process in commits of their own, by queue.
pub const ENQUEUED: &str = "tidelock_enqueued_total";
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
/// Runs that ended in this process, by workflow and by `state`: completed, failed or cancelled.
pub const RUNS_ENDED: &str = "tidelock_runs_ended_total";
/// Time from the start of a run to its end in seconds, by workflow.
pub const RUN_SECONDS: &str = "tidelock_run_seconds";
/// Turns of runs that ended because the code does not fit, panicked or stalled, by workflow.
pub const RUNS_PARKED: &str = "tidelock_runs_parked_total";
/// Attempts at steps, by workflow and by `outcome`: done, retried or failed.
pub const STEPS: &str = "tidelock_step_attempts_total";
/// Runs started by schedules, by schedule.
pub const SCHEDULED: &str = "tidelock_scheduled_runs_total";
/// Time between an occurrence of a schedule and the start of its run in seconds, by schedule.
pub const SCHEDULE_DELAY: &str = "tidelock_schedule_delay_seconds";
/// Conflicts with a concurrent change of a stream or a scope, by origin: `execute`, `scope`,
/// `transact`, or a reaction.
pub const CONTENDED: &str = "tidelock_conflicts_total";
/// Claim attempts, by kind and by `outcome`.
pub const CLAIMED: &str = "tidelock_claims_total";
/// Claim attempts that found the claim held, by kind.
pub const CLAIMS_CONTENDED: &str = "tidelock_claims_contended_total";

/// How a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// It is a distribution.
    Histogram,
}

/// A metric: what it counts, and in which unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricInfo {
    /// Its name.
    pub name: &'static str,
    /// How it counts.
    pub kind: MetricKind,
    /// Its unit.
    pub unit: Unit,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// What it counts.
    pub help: &'static str,
}

impl MetricInfo {
    /// A counter of things.
    pub const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: MetricKind::Counter, unit: Unit::Count, labels, help }
    }

    /// A number of things.
    pub const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: MetricKind::Gauge, unit: Unit::Count, labels, help }
    }

    /// A distribution of durations.
    pub const fn seconds(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: MetricKind::Histogram, unit: Unit::Seconds, labels, help }
    }

    /// Describes it to the recorder of this process.
    pub fn describe(&self) {
        match self.kind {
            MetricKind::Counter => metrics::describe_counter!(self.name, self.unit, self.help),
            MetricKind::Gauge => metrics::describe_gauge!(self.name, self.unit, self.help),
            MetricKind::Histogram => {
                metrics::describe_histogram!(self.name, self.unit, self.help);
            }
        }
    }
}

/// Every metric of this crate.
pub const METRICS: &[MetricInfo] = &[
    MetricInfo::counter(LEASED, &["queue"], "Leases granted to this process."),
    MetricInfo::counter(SETTLED, &["queue", "exit"], "Leases that ended."),
    MetricInfo::counter(
        EXPIRED,
        &["queue"],
        "Leases granted to this process on items whose earlier leases had expired since their last progress.",
    ),
    MetricInfo::counter(
        ENQUEUED,
        &["queue"],
        "Items enqueued by this process in commits of their own.",
    ),
    MetricInfo::seconds(WORKED, &["queue"], "Duration of the work on an item."),
    MetricInfo::gauge(RUNNING, &[], "Items this process is working on."),
    MetricInfo::counter(ROUTED, &["reaction"], "Events routed."),
    MetricInfo::counter(UNROUTED, &["reaction"], "Events whose route failed."),
    MetricInfo::counter(HANDLED, &["reaction"], "Events handled."),
    MetricInfo::counter(RUNS_ENDED, &["workflow", "state"], "Runs that ended in this process."),
    MetricInfo::seconds(RUN_SECONDS, &["workflow"], "Time from the start of a run to its end."),
    MetricInfo::counter(
        RUNS_PARKED,
        &["workflow"],
        "Turns of runs that ended because the code does not fit, panicked or stalled.",
    ),
    MetricInfo::counter(STEPS, &["workflow", "outcome"], "Attempts at steps."),
    MetricInfo::counter(SCHEDULED, &["schedule"], "Runs started by schedules."),
    MetricInfo::seconds(
        SCHEDULE_DELAY,
        &["schedule"],
        "Time between an occurrence of a schedule and the start of its run.",
    ),
    MetricInfo::counter(
        CONTENDED,
        &["by"],
        "Conflicts with a concurrent change of a stream or a scope.",
    ),
    MetricInfo::counter(CLAIMED, &["kind", "outcome"], "Claim attempts."),
    MetricInfo::counter(CLAIMS_CONTENDED, &["kind"], "Claim attempts that found the claim held."),
];

/// Describes every metric of this crate to the recorder of this process, with its unit: call it
/// once, after the recorder is installed.
pub fn describe() {
    METRICS.iter().for_each(MetricInfo::describe);
}

/// Reports the end of a run.
pub(crate) fn run_ended(summary: &Summary, state: RunState, at: Timestamp) {
    let workflow = summary.workflow.to_string();
    let took = at.since(summary.started_at);
    metrics::counter!(RUNS_ENDED, "workflow" => workflow.clone(), "state" => state.as_str())
        .increment(1);
    metrics::histogram!(RUN_SECONDS, "workflow" => workflow).record(took.as_secs_f64());
}

/// Reports that a run was parked.
pub(crate) fn run_parked(workflow: &WorkflowName) {
    metrics::counter!(RUNS_PARKED, "workflow" => workflow.to_string()).increment(1);
}

/// Reports an attempt at a step.
pub(crate) fn step_attempted(workflow: &WorkflowName, outcome: &'static str) {
    metrics::counter!(STEPS, "workflow" => workflow.to_string(), "outcome" => outcome).increment(1);
}

/// Reports that a schedule started a run.
pub(crate) fn scheduled(schedule: &ScheduleName, delay: Duration) {
    metrics::counter!(SCHEDULED, "schedule" => schedule.to_string()).increment(1);
    metrics::histogram!(SCHEDULE_DELAY, "schedule" => schedule.to_string())
        .record(delay.as_secs_f64());
}

/// Reports an enqueued item.
pub(crate) fn enqueued(queue: &QueueName) {
    metrics::counter!(ENQUEUED, "queue" => queue.as_str().to_owned()).increment(1);
}

/// Reports leases that a caller took by itself.
pub(crate) fn leased_by_caller(leases: &[Lease]) {
    leases.iter().for_each(leased);
}

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

/// The name of Tidelock as a messaging system, and as a database in memory.
const SYSTEM: &str = "tidelock";

/// A call of a reaction's handler, as part of the trace of its events.
pub(crate) fn handle_span(
    reaction: &ReactionName,
    events: &[StoredEvent],
    traces: &Traces,
) -> Span {
    let span = tracing::info_span!(
        "handle",
        otel.name = %format_args!("process {reaction}"),
        otel.kind = "consumer",
        messaging.system = SYSTEM,
        messaging.operation.name = "handle",
        messaging.operation.type = "process",
        messaging.consumer.group.name = %reaction,
        messaging.destination.name = %events[0].stream,
        messaging.message.id = %events[0].id,
        messaging.batch.message_count = events.len(),
    );
    if !span.is_none() {
        traces.enter(&span);
    }
    span
}

/// One turn of a run, as part of the trace that started it.
pub(crate) fn run_span(run: &RunId, workflow: &WorkflowName, trace: Option<&TraceContext>) -> Span {
    let span = tracing::info_span!(
        "run",
        otel.name = %format_args!("run {workflow}"),
        otel.kind = "consumer",
        messaging.system = SYSTEM,
        messaging.operation.name = "run",
        messaging.operation.type = "process",
        messaging.destination.name = %workflow,
        messaging.message.id = %run,
        tidelock.run.id = %run,
        tidelock.workflow.name = %workflow,
    );
    if let Some(trace) = trace.filter(|_| !span.is_none()) {
        continue_trace(&span, trace);
    }
    span
}

/// One attempt at a step.
pub(crate) fn step_span(
    run: &RunId,
    workflow: &WorkflowName,
    step: &StepName,
    attempt: u32,
) -> Span {
    tracing::info_span!(
        "step",
        otel.name = %format_args!("step {step}"),
        otel.kind = "internal",
        tidelock.run.id = %run,
        tidelock.workflow.name = %workflow,
        tidelock.step.name = %step,
        tidelock.step.attempt = attempt,
    )
}

/// A decision, with its retries.
pub(crate) fn execute_span(stream: &StreamName) -> Span {
    tracing::debug_span!("execute", otel.kind = "internal", tidelock.stream.name = %stream)
}

/// A commit on its way to the store.
pub(crate) fn commit_span(store: &dyn Store, commit: &Commit) -> Span {
    tracing::debug_span!(
        "commit",
        otel.kind = "client",
        db.system.name = database(store.capabilities().name),
        db.operation.name = "commit",
        db.operation.batch.size = commit.parts(),
    )
}

/// A page of events on its way to the reactions.
pub(crate) fn route_span(events: usize) -> Span {
    tracing::debug_span!(
        "route",
        otel.kind = "internal",
        messaging.system = SYSTEM,
        messaging.operation.name = "route",
        messaging.batch.message_count = events,
    )
}

/// The well-known name of a store's database.
fn database(store: &'static str) -> &'static str {
    match store {
        "postgres" => "postgresql",
        "memory" => SYSTEM,
        other => other,
    }
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
