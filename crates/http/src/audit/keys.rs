//! The audit log's names: the only place where they are spelled.

use tidelock::store::StreamName;

/// The type of the event that records a request.
pub(crate) const ASKED: &str = "asked";
/// The type of the event that records its result.
pub(crate) const ANSWERED: &str = "answered";

/// The stream of the audit log.
pub(crate) fn stream() -> StreamName {
    StreamName::new("~audit").expect("it is short and plain")
}
