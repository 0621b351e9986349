//! The only place where a name of the audit is spelled.

use tidelock::StreamName;

/// The type of the event that says what is asked for.
pub(crate) const ASKED: &str = "asked";
/// The type of the event that says what came of it.
pub(crate) const ANSWERED: &str = "answered";

/// Where it is written down.
pub(crate) fn stream() -> StreamName {
    StreamName::new("~audit").expect("it is short and plain")
}
