//! The layer's metrics. They never contain a request or a response.

use tidelock::telemetry::MetricInfo;

/// Requests with a key, and those that should have one, by `outcome`: `kept`, `released`,
/// `replayed`, or the code of a problem.
pub const REQUESTS: &str = "tidelock_idempotent_requests_total";

/// Every metric of this crate.
pub const METRICS: &[MetricInfo] = &[MetricInfo::counter(
    REQUESTS,
    &["outcome"],
    "Requests with a key, and those that should have one.",
)];

/// Describes every metric of this crate to the recorder of this process.
pub fn describe() {
    METRICS.iter().for_each(MetricInfo::describe);
}

/// Counts a request by its outcome.
pub(crate) fn answered(outcome: &'static str) {
    metrics::counter!(REQUESTS, "outcome" => outcome).increment(1);
    tracing::debug!(outcome, "answered");
}
