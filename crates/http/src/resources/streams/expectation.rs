//! The expected version of a stream: from a header, from the body, or none.

use http::header::{IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tidelock::ExpectedVersion;
use tidelock::problem::Problem;
use tidelock::store::{ExpectedRevision, Revision, Version};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::extract::header;

/// The expected version, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expectation {
    pub(super) expected: ExpectedVersion,
    /// From a header: a mismatch is then a failed precondition.
    by_header: bool,
}

/// The expectation in a body: `"any"`, `"none"`, `"exists"`, or a version or revision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected(ExpectedVersion);

impl<'de> Deserialize<'de> for Expected {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Version(Version),
            Word(String),
        }
        match Either::deserialize(from)? {
            Either::Version(version) => Ok(Self(ExpectedVersion::Exact(version))),
            Either::Word(word) => match word.as_str() {
                "any" => Ok(Self(ExpectedVersion::Any)),
                "none" => Ok(Self(ExpectedVersion::NoStream)),
                "exists" => Ok(Self(ExpectedVersion::Exists)),
                _ => Err(D::Error::custom("no expectation")),
            },
        }
    }
}

impl PartialSchema for Expected {
    fn schema() -> RefOr<Schema> {
        let words = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(["any", "none", "exists"]));
        let version = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(1))
            .maximum(Some(i64::MAX));
        let either = OneOfBuilder::new().item(words).item(version);
        RefOr::T(
            either
                .description(Some(
                    "The expected version of a stream, or revision of a record or scope",
                ))
                .into(),
        )
    }
}

impl ToSchema for Expected {}

impl Expected {
    /// The expected version of a stream.
    pub(in super::super) fn version(self) -> ExpectedVersion {
        self.0
    }

    /// The expected revision of a record or a scope.
    pub(in super::super) fn revision(self) -> ExpectedRevision {
        match self.0 {
            ExpectedVersion::Any => ExpectedRevision::Any,
            ExpectedVersion::NoStream => ExpectedRevision::Absent,
            ExpectedVersion::Exists => ExpectedRevision::Exists,
            ExpectedVersion::Exact(version) => {
                let revision = Revision::new(version.get());
                ExpectedRevision::Revision(
                    revision.expect("the range of a version is that of a revision"),
                )
            }
        }
    }
}

impl Expectation {
    /// Combines both; they must not differ.
    pub(super) fn of(headers: &HeaderMap, body: Option<Expected>) -> Result<Self, Problem> {
        let (by_header, in_body) = (in_headers(headers)?, body.map(|Expected(expected)| expected));
        match (by_header, in_body) {
            (Some(header), Some(body)) if header != body => {
                let detail = "the header and the body expect different versions: send one of them";
                Err(Problem::bad_request("expectation-ambiguous", detail))
            }
            (Some(expected), _) => Ok(Self { expected, by_header: true }),
            (None, body) => {
                Ok(Self { expected: body.unwrap_or(ExpectedVersion::Any), by_header: false })
            }
        }
    }

    /// The status of a mismatch.
    pub(super) fn unmet(self) -> StatusCode {
        if self.by_header { StatusCode::PRECONDITION_FAILED } else { StatusCode::CONFLICT }
    }
}

fn in_headers(headers: &HeaderMap) -> Result<Option<ExpectedVersion>, Problem> {
    match (header(headers, &IF_MATCH)?, header(headers, &IF_NONE_MATCH)?) {
        (None, None) => Ok(None),
        (Some("*"), None) => Ok(Some(ExpectedVersion::Exists)),
        (None, Some("*")) => Ok(Some(ExpectedVersion::NoStream)),
        (Some(tag), None) => Ok(Some(ExpectedVersion::Exact(version(tag)?))),
        _ => Err(unusable()),
    }
}

/// The version of an entity tag. A weak one cannot be compared, and is refused.
fn version(tag: &str) -> Result<Version, Problem> {
    let number = tag
        .strip_prefix('"')
        .and_then(|tag| tag.strip_suffix('"'))
        .and_then(|number| number.parse().ok());
    number.and_then(|number| Version::new(number).ok()).ok_or_else(unusable)
}

fn unusable() -> Problem {
    let detail = "the expectation cannot be used: send If-Match: \"4\" (the version in quotes), If-Match: * (it exists) or If-None-Match: * (it does not)";
    Problem::bad_request("expectation-invalid", detail)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn of(
        headers: &[(http::HeaderName, &'static str)],
        body: &str,
    ) -> Result<Expectation, Problem> {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect();
        Expectation::of(&headers, serde_json::from_str(body).unwrap())
    }

    fn four() -> ExpectedVersion {
        ExpectedVersion::Exact(Version::new(4).unwrap())
    }

    #[test]
    fn an_expectation_is_read_from_header_or_body() {
        assert_eq!(of(&[], "null").unwrap().expected, ExpectedVersion::Any);
        assert_eq!(of(&[], "4").unwrap().expected, four());
        assert_eq!(of(&[], "\"none\"").unwrap().unmet(), StatusCode::CONFLICT);
        let by_header = of(&[(IF_MATCH, "\"4\"")], "4").unwrap();
        assert_eq!(
            (by_header.expected, by_header.unmet()),
            (four(), StatusCode::PRECONDITION_FAILED)
        );
        assert_eq!(of(&[(IF_MATCH, "*")], "null").unwrap().expected, ExpectedVersion::Exists);
        assert_eq!(
            of(&[(IF_NONE_MATCH, "*")], "null").unwrap().expected,
            ExpectedVersion::NoStream
        );
    }

    #[test]
    fn ambiguous_expectations_are_refused() {
        assert!(of(&[(IF_MATCH, "\"4\"")], "5").is_err());
        assert!(of(&[(IF_MATCH, "\"4\""), (IF_NONE_MATCH, "*")], "null").is_err());
        for tag in ["4", "W/\"4\"", "\"0\"", "\"4\", \"5\"", "\"\""] {
            assert!(of(&[(IF_MATCH, tag)], "null").is_err(), "{tag}");
        }
        for body in ["0", "-1", "\"4\"", "true", "{}"] {
            assert!(serde_json::from_str::<Expected>(body).is_err(), "{body}");
        }
    }
}
