//! Preconditions on a scope, from headers.

use http::HeaderMap;
use http::header::{IF_MATCH, IF_NONE_MATCH};
use serde_json::Value;
use tidelock::problem::Problem;
use tidelock::scopes::Mutation;
use tidelock::scopes::Scope;
use tidelock::store::Revision;

use crate::extract::header;

/// What a scope must be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Precondition {
    /// No condition.
    None,
    /// It exists.
    Exists,
    /// It does not exist.
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

    /// A mutation with this precondition.
    pub(super) fn mutation(self, scope: &Scope<Value>) -> Result<Mutation<Value>, Problem> {
        match self {
            Self::None => Ok(scope.mutation()),
            Self::Exists => Ok(scope.mutation().only_existing()),
            Self::Revision(revision) => Ok(scope.at_revision(revision)),
            Self::Absent => Err(Problem::bad_request(
                "precondition-invalid",
                "If-None-Match can only be used with PUT",
            )),
        }
    }
}

/// The revision of an entity tag. A weak one cannot be compared, and is refused.
fn revision(tag: &str) -> Result<Revision, Problem> {
    let number = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let number = number.and_then(|number| number.parse().ok());
    number.and_then(|number| Revision::new(number).ok()).ok_or_else(unusable)
}

fn unusable() -> Problem {
    let detail = "the precondition cannot be used: send If-Match: \"4\" (the revision in quotes), If-Match: * (it exists) or \
                  If-None-Match: * (it does not)";
    Problem::bad_request("precondition-invalid", detail)
}
