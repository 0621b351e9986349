//! Server-sent events with backpressure.
//!
//! The next piece is produced when the connection has room for it: at most one piece is buffered
//! for a slow reader. So a reader can be arbitrarily slow, and no writer ever waits for one. A
//! stream ends when its client disconnects or the server shuts down.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, timeout_at};

use crate::app_state::AppState;
use crate::problem::Problem;

/// A source of pieces of an event stream.
pub(crate) trait Source: Send + 'static {
    /// Waits for the next piece; `None` at the end. Cancel-safe: it is dropped at each keep-alive,
    /// and must then continue where it was.
    fn next(&mut self) -> impl Future<Output = Option<Piece>> + Send;
}

/// Whole server-sent events, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    text: Vec<u8>,
}

impl Piece {
    /// Appends an event with this name and JSON data, and with an id if clients can continue after
    /// it.
    pub(crate) fn push(
        &mut self,
        name: &str,
        id: Option<&dyn std::fmt::Display>,
        data: &impl Serialize,
    ) {
        let mut json = serde_json::to_vec(data).expect("what is shown can be written as JSON");
        // JSON has line breaks only between tokens; here they would end the event.
        json.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        if let Some(id) = id {
            self.text.extend_from_slice(format!("id: {id}\n").as_bytes());
        }
        self.text.extend_from_slice(format!("event: {name}\ndata: ").as_bytes());
        self.text.append(&mut json);
        self.text.extend_from_slice(b"\n\n");
    }

    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }

    /// The number of events.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        String::from_utf8_lossy(&self.text).matches("\n\n").count()
    }
}

/// A response that sends the events of this source.
pub(crate) fn answer(served: &AppState, source: impl Source) -> Result<Response, Problem> {
    let open = Open { source, served: served.clone(), _permit: permit(served)?, greeted: false };
    let pieces = stream::unfold(open, |mut open| async move {
        let bytes = open.next().await?;
        Some((Ok::<_, Infallible>(bytes), open))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, Body::from_stream(pieces)).into_response())
}

fn permit(served: &AppState) -> Result<OwnedSemaphorePermit, Problem> {
    served.streams.clone().try_acquire_owned().map_err(|_| {
        let detail = format!(
            "{} event streams are open, which is the limit: try again later",
            served.limits().streams
        );
        Problem::unavailable("too-many-streams", detail)
    })
}

/// An open stream.
struct Open<S> {
    source: S,
    served: AppState,
    /// Released when the client disconnects.
    _permit: OwnedSemaphorePermit,
    greeted: bool,
}

impl<S: Source> Open<S> {
    async fn next(&mut self) -> Option<Bytes> {
        // The head of the response is sent with the first piece, so the client must get one at
        // once.
        if !self.greeted {
            self.greeted = true;
            return Some(Bytes::from_static(b": open\n\n"));
        }
        let alive = Instant::now() + self.keep_alive();
        tokio::select! {
            biased;
            () = self.served.setup.closing.cancelled() => None,
            piece = timeout_at(alive, self.source.next()) => match piece {
                Ok(piece) => piece.map(|piece| piece.text.into()),
                Err(_) => Some(Bytes::from_static(b": alive\n\n")),
            },
        }
    }

    fn keep_alive(&self) -> Duration {
        self.served.limits().keep_alive
    }
}

#[cfg(test)]
mod tests {
    use tidelock::RawJson;

    use super::*;

    #[test]
    fn any_data_stays_one_event() {
        let mut piece = Piece::default();
        piece.push(
            "event",
            Some(&7),
            &RawJson::parse("{\n\"a\":\r\n\"x\\n\\ndata: y\"\n}").unwrap(),
        );
        let text = String::from_utf8(piece.text).unwrap();
        assert_eq!(text, "id: 7\nevent: event\ndata: { \"a\":  \"x\\n\\ndata: y\" }\n\n");
    }
}
