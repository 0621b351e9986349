//! The names under which the edge tells what it does. Neither a key's request nor its response is
//! ever in them.

/// Requests with a key, and those that should have had one, by `outcome`: `kept`, `released`,
/// `replayed`, or the code of a problem.
pub const REQUESTS: &str = "tidelock_http_requests_total";

/// A request ended like this.
pub(crate) fn answered(outcome: &'static str) {
    metrics::counter!(REQUESTS, "outcome" => outcome).increment(1);
    tracing::debug!(outcome, "answered");
}
