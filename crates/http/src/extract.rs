//! Extractors: path, query and JSON body, each with a problem for input that cannot be parsed.
//!
//! The messages of serde quote the input. Clients are told the position and what was expected
//! instead, so that no payload reaches a log or a screen by way of an error.

mod objects;

use std::error::Error;

use axum::extract::{FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Body as _;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;
use serde_path_to_error::{Path, Segment};
use tidelock::problem::Problem;

use crate::app_state::AppState;
use crate::auth::Caller;
use crate::serve::BodyTimeout;
use objects::Objects;

/// Names in a path, validated as they are parsed.
#[derive(Debug)]
pub(crate) struct InPath<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match <axum::extract::Path<T> as FromRequestParts<S>>::from_request_parts(parts, state)
            .await
        {
            Ok(axum::extract::Path(names)) => Ok(Self(names)),
            Err(refused) => Err(Problem::bad_request(
                "path-invalid",
                format!("the path cannot be used: {}", said(&refused.body_text())),
            )),
        }
    }
}

/// The query string.
#[derive(Debug)]
pub(crate) struct InQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for InQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        match axum::extract::Query::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(refused) => Err(Problem::bad_request(
                "query-invalid",
                format!("the query cannot be used: {}", said(&refused.body_text())),
            )),
        }
    }
}

/// The message, without the name of the step that failed.
fn said(refused: &str) -> &str {
    const STEPS: [&str; 2] = ["Failed to deserialize query string: ", "Invalid URL: "];
    STEPS.iter().find_map(|step| refused.strip_prefix(step)).unwrap_or(refused)
}

/// A JSON body.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<AppState> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, served: &AppState) -> Result<Self, Problem> {
        check_is_json(request.headers(), &["application/json"])?;
        let bytes = whole(request.into_body(), served).await?;
        parse(&bytes).map(Self)
    }
}

/// Refuses a body whose `Content-Type` is not one of these.
pub(crate) fn check_is_json(headers: &HeaderMap, types: &[&str]) -> Result<(), Problem> {
    let said = headers.get(CONTENT_TYPE).and_then(|said| said.to_str().ok()).unwrap_or_default();
    let said = said.split(';').next().unwrap_or_default().trim();
    if types.iter().any(|one| one.eq_ignore_ascii_case(said)) {
        return Ok(());
    }
    let detail =
        format!("the body has to be sent with the header Content-Type: {}", types.join(" or "));
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-json", detail))
}

/// Reads the whole body, within the limit.
pub(crate) async fn whole(body: axum::body::Body, served: &AppState) -> Result<Bytes, Problem> {
    let limit = served.limits().body_bytes;
    let announced = body.size_hint().exact();
    // Refused before a byte of it is read.
    if announced.is_some_and(|bytes| bytes > limit as u64) {
        return Err(too_large(announced, limit));
    }
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(announced, limit)),
        Err(error) => Err(unread(&*error)),
    }
}

fn too_large(announced: Option<u64>, limit: usize) -> Problem {
    let size = announced.map_or_else(String::new, |bytes| format!(" has {bytes} bytes, which"));
    let detail = format!(
        "the body of the request{size} is more than the {limit} bytes that this server accepts; split the request"
    );
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail).with("limit", limit)
}

/// The body ended early, or did not arrive in time.
fn unread(error: &(dyn Error + 'static)) -> Problem {
    let (mut cause, mut slow) = (Some(error), None);
    while let Some(error) = cause {
        slow = slow.or_else(|| error.downcast_ref::<BodyTimeout>());
        cause = error.source();
    }
    match slow {
        Some(slow) => Problem::new(
            StatusCode::REQUEST_TIMEOUT,
            "body-too-slow",
            format!("{slow}; send it again"),
        ),
        None => Problem::bad_request(
            "body-unreadable",
            "the body of the request could not be read to its end; send it again",
        ),
    }
}

/// Parses JSON.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut from = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(Objects(&mut from));
    let refused = |wrong: String| {
        Problem::bad_request("body-invalid", format!("the body cannot be used: {wrong}"))
    };
    match parsed {
        Ok(parsed) => {
            from.end().map(|()| parsed).map_err(|error| refused(wrong_with(&error, None)))
        }
        // What is no value of an enum is reported as a syntax error.
        Err(error) if is_misshapen(error.inner(), bytes) => {
            Err(refused(in_words("it does not fit", &field(error.path()))))
        }
        Err(error) => Err(refused(wrong_with(error.inner(), Some(error.path())))),
    }
}

/// Whether a syntax error is about JSON that is fine, and of another form than was expected.
fn is_misshapen(error: &serde_json::Error, bytes: &[u8]) -> bool {
    error.classify() == Category::Syntax
        && !error.to_string().starts_with(RECURSION)
        && serde_json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Describes what is wrong with a body, without quoting it.
fn wrong_with(error: &serde_json::Error, path: Option<&Path>) -> String {
    match error.classify() {
        Category::Syntax if error.to_string().starts_with(RECURSION) => {
            format!("it is too deep; the limit is {} levels", tidelock::store::limits::JSON_DEPTH)
        }
        // These messages are the parser's own, and quote nothing.
        Category::Syntax | Category::Eof => format!("it is not JSON: {error}"),
        Category::Data | Category::Io => {
            let place = path.map_or_else(String::new, field);
            // The last name in the path of an unknown field is the client's.
            let known = match error.to_string().starts_with("unknown field") {
                true => place.rsplit_once('.').map_or("", |(known, _)| known),
                false => &place,
            };
            in_words(&tidelock::store::unfit(error), known)
        }
    }
}

/// How the parser's message begins when the nesting is too deep.
const RECURSION: &str = "recursion limit exceeded";

/// The field whose own fields are named by the client.
const FREE: &str = "attributes";

/// The path of the invalid field: known fields, and list indexes. Names that the client chose are
/// not repeated.
fn field(path: &Path) -> String {
    let mut is_chosen = false;
    let known = path.iter().take_while(|segment| {
        let is_of_a_choice = std::mem::replace(&mut is_chosen, segment.to_string() == FREE);
        !is_of_a_choice && matches!(segment, Segment::Seq { .. } | Segment::Map { .. })
    });
    known.map(ToString::to_string).fold(String::new(), |path, segment| {
        match segment.starts_with('[') || path.is_empty() {
            true => path + &segment,
            false => path + "." + &segment,
        }
    })
}

/// What was expected, in terms of JSON instead of Rust types.
fn in_words(unfit: &str, field: &str) -> String {
    let named = if field.is_empty() { "its field".to_owned() } else { format!("field {field}") };
    if let Some(place) = unfit.strip_prefix("it does not fit") {
        return format!(
            "{named} does not accept this value{place}; GET /v1/openapi.json lists what it accepts"
        );
    }
    if let Some(own) = unfit.strip_prefix("it ") {
        return format!("{named} {own}");
    }
    let of = if field.is_empty() { String::new() } else { format!("field {field}: ") };
    let Some(expected) = unfit.strip_prefix("expected ") else { return format!("{of}{unfit}") };
    let (expected, place) =
        expected.find(" at line ").map_or((expected, ""), |at| expected.split_at(at));
    let words = match expected.split(' ').next() {
        Some("struct") => "an object",
        Some("u8" | "u16" | "u32" | "u64" | "usize") => "a whole number, not below 0",
        Some("i8" | "i16" | "i32" | "i64") => "a whole number",
        Some("f32" | "f64") => "a number",
        _ => expected,
    };
    format!("{of}expected {words}{place}")
}

/// An optional JSON body.
#[derive(Debug)]
pub(crate) struct MaybeBody<T>(pub(crate) T);

impl<T: DeserializeOwned + Default> FromRequest<AppState> for MaybeBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Problem> {
        let length = request.headers().get(CONTENT_LENGTH).map(|length| length.as_bytes() != b"0");
        match length.unwrap_or_else(|| request.headers().contains_key(TRANSFER_ENCODING)) {
            true => Body::from_request(request, state).await.map(|Body(body)| Self(body)),
            false => Ok(Self(T::default())),
        }
    }
}

/// The single value of a header, as text; a repeated header is refused.
pub(crate) fn header<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| unreadable(name)),
        (Some(_), Some(_)) => Err(unreadable(name)),
    }
}

fn unreadable(name: &HeaderName) -> Problem {
    Problem::bad_request(
        "header-invalid",
        format!("the header {name} must occur once, in plain text"),
    )
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| {
            Problem::internal("no-caller", "the caller was not authenticated; this is a bug")
        })
    }
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    #[test]
    fn invalid_json_is_reported_without_quoting_it() {
        let refused = parse::<Vec<u8>>(b"[canary]").unwrap_err().into_response();
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        for (text, says) in
            [("{canary", "it is not JSON: key must be a string"), ("[1,", "it is not JSON: EOF")]
        {
            let wrong =
                wrong_with(&serde_json::from_str::<serde_json::Value>(text).unwrap_err(), None);
            assert!(wrong.starts_with(says) && !wrong.contains("canary"), "{wrong}");
        }
    }

    #[test]
    fn expectations_are_expressed_in_terms_of_json() {
        assert_eq!(
            in_words("expected struct Why at line 1 column 2", ""),
            "expected an object at line 1 column 2"
        );
        assert_eq!(
            in_words("expected u64 at line 3 column 4", "events"),
            "field events: expected a whole number, not below 0 at line 3 column 4"
        );
        assert_eq!(in_words("expected a boolean", ""), "expected a boolean");
        assert!(
            in_words("it does not fit at line 1 column 2", "")
                .starts_with("its field does not accept this value at")
        );
        assert_eq!(
            in_words("missing field `grant` at line 1", ""),
            "missing field `grant` at line 1"
        );
    }
}
