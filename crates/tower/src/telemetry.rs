//! The layer's metrics. They never contain a request or a response.

/// Requests with a key, and those that should have one, by `outcome`: `kept`, `released`,
/// `replayed`, or the code of a problem.
pub const REQUESTS: &str = "tidelock_http_requests_total";

/// Counts a request by its outcome.
pub(crate) fn answered(outcome: &'static str) {
    metrics::counter!(REQUESTS, "outcome" => outcome).increment(1);
    tracing::debug!(outcome, "answered");
}
