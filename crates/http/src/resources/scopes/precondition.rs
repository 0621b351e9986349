//! What a client expects a scope to be like, by a header.

use http::HeaderMap;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use serde_json::Value;
use tidelock::scopes::Mutation;
use tidelock::{Revision, Scope};

use crate::extract::header;
use crate::problem::Problem;

/// What a scope is to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precondition {
    /// Whatever it is.
    None,
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
    /// It is at this revision.
    Revision(Revision),
}

impl Precondition {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Problem> {
        match (header(headers, &IF_MATCH)?, header(headers, &IF_NONE_MATCH)?) {
            (None, None) => Ok(Self::None),
            (Some("*"), None) => Ok(Self::Exists),
            (None, Some("*")) => Ok(Self::Absent),
            (Some(tag), None) => revision(tag).map(Self::Revision),
            _ => Err(unusable()),
        }
    }

    /// A mutation that is made only then.
    pub(super) fn mutation(self, scope: &Scope<Value>) -> Result<Mutation<Value>, Problem> {
        match self {
            Self::None => Ok(scope.mutation()),
            Self::Exists => Ok(scope.mutation().only_existing()),
            Self::Revision(revision) => Ok(scope.at_revision(revision)),
            Self::Absent => Err(Problem::bad_request(
                "precondition-invalid",
                "what is to be changed has to be there: If-None-Match goes with PUT only",
            )),
        }
    }
}

/// The revision in an entity tag. A weak one cannot be compared, and so is refused.
fn revision(tag: &str) -> Result<Revision, Problem> {
    let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let number = number.and_then(|number| number.parse().ok());
    number.and_then(|number| Revision::new(number).ok()).ok_or_else(unusable)
}

fn unusable() -> Problem {
    let detail = "the precondition cannot be used: send If-Match: \"4\" (the revision in quotes), If-Match: * (it is there) or \
                  If-None-Match: * (it is not)";
    Problem::bad_request("precondition-invalid", detail)
}
