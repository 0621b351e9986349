//! Server-sent events with backpressure.
//!
//! The next event is produced when the connection has room for it. So a reader can be arbitrarily
//! slow, and no writer ever waits for one. A stream ends when its client disconnects or the server
//! shuts down.

use std::convert::Infallible;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use http::header::CACHE_CONTROL;
use serde::Serialize;
use tidelock::problem::Problem;
use tidelock::store::StoreError;
use tokio::sync::OwnedSemaphorePermit;

use crate::app_state::AppState;

/// An event with this name and JSON data, and with an id if clients can continue after it.
pub(crate) fn event(name: &str, id: Option<String>, data: &impl Serialize) -> Event {
    let json = serde_json::to_string(data).expect("what is shown can be written as JSON");
    // JSON has line breaks only between tokens; here each would begin another field.
    let event = id.into_iter().fold(Event::default(), Event::id);
    event.event(name).data(json.replace(['\n', '\r'], " "))
}

/// An event that says what failed.
pub(crate) fn problem(error: StoreError) -> Event {
    Event::default().event("problem").data(Problem::from(error).to_json())
}

/// A response that sends these events.
pub(crate) fn answer(
    served: &AppState,
    events: impl Stream<Item = Event> + Send + 'static,
) -> Result<Response, Problem> {
    let (permit, closing) = (permit(served)?, served.setup.closing.clone());
    // The head of the response is sent with the first event, so the client must get one at once.
    let events = stream::iter([Event::default().comment("open")]).chain(events);
    let events = events.take_until(closing.cancelled_owned()).map(move |event| {
        let _until_the_client_disconnects = &permit;
        Ok::<_, Infallible>(event)
    });
    let alive = KeepAlive::new().interval(served.limits().keep_alive).text("alive");
    Ok(([(CACHE_CONTROL, "no-store")], Sse::new(events).keep_alive(alive)).into_response())
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

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use tidelock::store::RawJson;

    use super::*;

    #[tokio::test]
    async fn any_data_stays_one_event() {
        let data = RawJson::parse("{\n\"a\":\r\n\"x\\n\\ndata: y\"\n}").unwrap();
        let events =
            stream::iter([Ok::<_, Infallible>(event("event", Some("7".to_owned()), &data))]);
        let body = Sse::new(events).into_response().into_body().collect().await.unwrap();
        assert_eq!(
            body.to_bytes(),
            "id: 7\nevent: event\ndata: { \"a\":  \"x\\n\\ndata: y\" }\n\n"
        );
    }
}
