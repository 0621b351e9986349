//! Follows the feed as server-sent events, from a position on, without loss or duplicates.
//!
//! It reads on from where it stopped; a change hint only says that reading may be worthwhile. The
//! next page is read when the client has taken the one before.

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::{Stream, StreamExt, stream};
use http::{HeaderMap, HeaderName};
use serde::Deserialize;
use tidelock::problem::Problem;
use tidelock::store::{ChangeHint, FeedQuery, FeedStart, Position, StoreError, StoredEvent, Topic};
use utoipa::IntoParams;

use super::event::EventDto;
use super::feed::types;
use crate::app_state::AppState;
use crate::extract::{InQuery, header};
use crate::limits::{FOLLOW_PAGE, LOOK};
use crate::sse;

/// Where a client continues after a reconnect.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The query of a follower.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FollowParams {
    /// Only events after this position; from the start by default.
    #[param(value_type = Option<u64>)]
    after: Option<Position>,
    /// Only events of these types, separated by commas.
    types: Option<String>,
    /// Only events of streams with this name prefix.
    #[serde(default)]
    #[param(max_length = 256)]
    prefix: String,
    /// Only events of this stream.
    #[param(max_length = 256)]
    stream: Option<String>,
}

/// Follow the feed by server-sent events.
///
/// Each is named `event`, has the position as its `id`, and an event as its data. `Last-Event-ID`
/// takes precedence over `after`. A comment is sent when nothing happens for a while. If the store
/// fails, an event `problem` says so and the stream ends; continue after the last position that you
/// received.
#[utoipa::path(get, path = "/v1/events/follow", tag = "events",
    params(FollowParams, ("Last-Event-ID" = Option<String>, Header, description = "The last position received")),
    responses(
        (status = 200, description = "Events, until the client disconnects", body = String, content_type = "text/event-stream"),
        (status = 410, description = "The position is not one of this store"),
    ))]
pub(crate) async fn follow(
    State(served): State<AppState>,
    InQuery(asked): InQuery<FollowParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let follower = Follower::new(&served, asked, &headers)?;
    // Errors are found before the stream begins: afterwards there is no status to report them by.
    served.store().read_feed(follower.query.clone().limit(1)).await?;
    sse::answer(&served, follower.events())
}

struct Follower {
    served: AppState,
    query: FeedQuery,
    stream: Option<String>,
    /// Subscribed before the first read, so that no change in between is missed.
    signal: ChangeHint,
}

impl Follower {
    fn new(served: &AppState, asked: FollowParams, headers: &HeaderMap) -> Result<Self, Problem> {
        let after = match header(headers, &LAST_EVENT_ID)? {
            Some(id) => position(id)?,
            None => asked.after.unwrap_or(Position::START),
        };
        // The prefix of a stream's name is looked up by an index; the rest of the name is compared
        // here.
        let prefix = asked.stream.clone().unwrap_or(asked.prefix);
        let query = FeedQuery::after(after)
            .limit(FOLLOW_PAGE)
            .stream_prefix(prefix)
            .types(types(asked.types.as_deref())?);
        let signal = served.store().signal(Topic::Log);
        Ok(Self { served: served.clone(), query, stream: asked.stream, signal })
    }

    fn is_meant(&self, event: &StoredEvent) -> bool {
        self.stream.as_deref().is_none_or(|stream| event.stream.as_str() == stream)
    }

    /// The next events, read when the client has taken those before. A failure is the last event.
    fn events(self) -> impl Stream<Item = Event> {
        let pages = stream::unfold(Some(self), |follower| async {
            let mut follower = follower?;
            match follower.page().await {
                Ok(page) => Some((page, Some(follower))),
                Err(error) => Some((vec![sse::problem(error)], None)),
            }
        });
        pages.flat_map(stream::iter)
    }

    /// Waits for the next page that is not empty.
    async fn page(&mut self) -> Result<Vec<Event>, StoreError> {
        loop {
            let page = self.served.store().read_feed(self.query.clone()).await?;
            self.query.from = FeedStart::After(page.next);
            let meant = page.events.into_iter().filter(|event| self.is_meant(event));
            let events: Vec<_> = meant.map(shown).collect();
            if !events.is_empty() {
                return Ok(events);
            }
            if page.at_end {
                let _in_time = tokio::time::timeout(LOOK, self.signal.wait()).await;
            }
        }
    }
}

fn shown(event: StoredEvent) -> Event {
    let position = event.position.to_string();
    sse::event("event", Some(position), &EventDto::from(event))
}

fn position(id: &str) -> Result<Position, Problem> {
    let number = id.trim().parse().ok().and_then(|number| Position::new(number).ok());
    number.ok_or_else(|| {
        Problem::bad_request(
            "position-invalid",
            "the header Last-Event-ID has to be a position: the id of the last event received",
        )
    })
}

#[cfg(test)]
mod tests {
    use tidelock::store::{NewEvent, StoreExt, StreamName};
    use tidelock::{ExpectedVersion, Tidelock};

    use super::*;
    use crate::app_state::Setup;

    /// HTTP-13.
    #[tokio::test]
    async fn a_follower_reads_one_page_at_a_time() {
        let served = AppState::new(Setup::over(Tidelock::open("memory:").await.unwrap()));
        let events = (0..=FOLLOW_PAGE).map(|n| NewEvent::of("noted", &n).unwrap()).collect();
        let stream = StreamName::new("a").unwrap();
        served
            .store()
            .append(&stream, ExpectedVersion::Any, events)
            .await
            .unwrap()
            .committed()
            .unwrap();
        let asked = FollowParams { after: None, types: None, prefix: String::new(), stream: None };
        let mut follower = Follower::new(&served, asked, &HeaderMap::new()).unwrap();
        assert_eq!(follower.page().await.unwrap().len(), FOLLOW_PAGE);
        assert_eq!(follower.page().await.unwrap().len(), 1);
    }
}
