//! A recorded response.
//!
//! Hop-by-hop headers are not recorded; nor are those that a route excludes.

use bytes::Bytes;
use http::header::{
    CONNECTION, DATE, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::response::Parts;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};

use crate::bytes_or_text::BytesOrText;

/// The header that marks a replay.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// Hop-by-hop headers, and the time of sending.
const NEVER_KEPT: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    DATE,
];

/// A recorded response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recorded {
    status: u16,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, BytesOrText)>,
    /// Absent if it could not be recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    body: Option<BytesOrText>,
}

impl Recorded {
    /// Records this response without these headers.
    pub(crate) fn new(parts: &Parts, body: Bytes, left_out: &[HeaderName]) -> Self {
        let kept = parts.headers.iter().filter(|(name, _)| is_kept(name, &parts.headers, left_out));
        let written = kept.map(|(name, value)| (name.as_str().to_owned(), written(value)));
        Self {
            status: parts.status.as_u16(),
            headers: written.collect(),
            body: Some(BytesOrText(body)),
        }
    }

    /// Records only the status.
    pub(crate) fn without_content(status: StatusCode) -> Self {
        Self { status: status.as_u16(), headers: Vec::new(), body: None }
    }

    /// The response again, if its body was recorded; `None` if it cannot be parsed.
    pub(crate) fn replay(self) -> Option<Response<Bytes>> {
        let mut response = Response::new(self.body?.0);
        *response.status_mut() = StatusCode::from_u16(self.status).ok()?;
        for (name, value) in self.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            response.headers_mut().append(name, HeaderValue::from_maybe_shared(value.0).ok()?);
        }
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        Some(response)
    }
}

fn written(value: &HeaderValue) -> BytesOrText {
    BytesOrText(Bytes::copy_from_slice(value.as_bytes()))
}

fn is_kept(name: &HeaderName, headers: &HeaderMap, left_out: &[HeaderName]) -> bool {
    !NEVER_KEPT.contains(name) && !left_out.contains(name) && !is_of_the_connection(name, headers)
}

/// Whether `Connection` names the header.
fn is_of_the_connection(name: &HeaderName, headers: &HeaderMap) -> bool {
    let lists = headers.get_all(CONNECTION).iter().filter_map(|list| list.to_str().ok());
    lists
        .flat_map(|list| list.split(','))
        .any(|named| named.trim().eq_ignore_ascii_case(name.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replayed(response: http::response::Builder, body: &'static [u8]) -> Response<Bytes> {
        let (parts, ()) = response.body(()).unwrap().into_parts();
        let recorded = Recorded::new(&parts, Bytes::from_static(body), &[http::header::SET_COOKIE]);
        let json = serde_json::to_string(&recorded).unwrap();
        serde_json::from_str::<Recorded>(&json).unwrap().replay().unwrap()
    }

    #[test]
    fn a_response_round_trips() {
        let odd = HeaderValue::from_bytes(b"caf\xe9").unwrap();
        let first = Response::builder()
            .status(201)
            .header("x-many", "1")
            .header("x-many", "2")
            .header("x-odd", odd);
        let again = replayed(first, b"\xff\x00paid");
        assert_eq!(
            (again.status(), again.body().as_ref()),
            (StatusCode::CREATED, &b"\xff\x00paid"[..])
        );
        assert_eq!(again.headers().get_all("x-many").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(again.headers()["x-odd"].as_bytes(), b"caf\xe9");
    }

    #[test]
    fn hop_by_hop_headers_are_not_recorded() {
        let first = Response::builder()
            .header(CONNECTION, "close, X-Hop")
            .header("x-hop", "1")
            .header(TRANSFER_ENCODING, "chunked")
            .header("keep-alive", "timeout=5")
            .header(DATE, "Sun, 15 Nov 2026 00:00:00 GMT")
            .header("set-cookie", "session=1")
            .header("x-kept", "1");
        let again = replayed(first, b"");
        let mut names: Vec<_> = again.headers().keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["idempotent-replayed", "x-kept"]);
    }
}
