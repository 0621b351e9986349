//! Streams: lists, reads and appends.

mod append;
pub(super) mod expectation;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::store::{
    EventType, Head, HeadQuery, StoreExt, StreamName, StreamQuery, StreamState, Version,
};
use utoipa::{IntoParams, ToSchema};

use super::cursor::VersionCursor;
use super::event::EventDto;
use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::paging::Page;

pub(crate) use append::*;

/// A stream's summary.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Stream)]
pub(crate) struct StreamDto {
    /// Its name.
    #[schema(value_type = String, example = "order-7")]
    name: StreamName,
    /// The number of events ever appended.
    #[schema(value_type = u64, minimum = 1)]
    version: Option<Version>,
    /// Whether it refuses every append.
    closed: bool,
    /// The number of readable events: fewer than the version once some were trimmed.
    events: u64,
    /// The type of the newest event, if any is left.
    #[schema(value_type = Option<String>)]
    last_type: Option<EventType>,
    /// When the newest event was appended.
    #[schema(value_type = Option<String>, format = DateTime)]
    last_at: Option<Timestamp>,
}

impl From<Head> for StreamDto {
    fn from(head: Head) -> Self {
        let (last_type, last_at) =
            head.last.map(|event| (event.event_type, event.recorded_at)).unzip();
        let closed = matches!(head.state, StreamState::Closed(_));
        Self {
            name: head.stream,
            version: head.state.version(),
            closed,
            events: head.count,
            last_type,
            last_at,
        }
    }
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// A prefix of their names.
    #[serde(default)]
    #[param(max_length = 256)]
    prefix: String,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<StreamName>,
    /// The maximum number of streams.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List streams, by name.
#[utoipa::path(get, path = "/v1/streams", tag = "streams", params(ListQuery), responses((status = 200, body = Page<StreamDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Json<Page<StreamDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    let query = HeadQuery::Prefix { prefix: asked.prefix, after: asked.after, limit };
    let page = served.store().full_page(query).await?;
    Ok(Json(Page::new(page.heads.into_iter().map(StreamDto::from).collect(), page.next)))
}

/// Reads a stream's summary. Its version is the `ETag`.
#[utoipa::path(get, path = "/v1/streams/{stream}", tag = "streams",
    params(("stream" = String, Path, description = "Its name", min_length = 1, max_length = 256)),
    responses(
        (status = 200, body = StreamDto, headers(("ETag" = String, description = "The version, in quotes"))),
        (status = 404, description = "There is no such stream"),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(stream): InPath<StreamName>,
) -> Result<Response, Problem> {
    let head = served.store().head(&stream).await?;
    let tag = etag(head.state).ok_or_else(|| no_stream(&stream))?;
    Ok(([(ETAG, tag)], Json(StreamDto::from(head))).into_response())
}

/// Which events of a stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReadQuery {
    /// The first version to return; by default the oldest, or the newest if `backward`.
    #[param(value_type = Option<u64>, minimum = 1)]
    from: Option<Version>,
    /// The cursor: `next` of the previous page. Only events after this version, or before it if
    /// `backward`.
    #[param(value_type = Option<u64>, minimum = 0)]
    after: Option<VersionCursor>,
    /// From newer to older.
    #[serde(default)]
    backward: bool,
    /// The maximum number of events.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Reads a page of a stream's events. The stream's version is the `ETag`.
#[utoipa::path(get, path = "/v1/streams/{stream}/events", tag = "streams",
    params(("stream" = String, Path, description = "Its name", min_length = 1, max_length = 256), ReadQuery),
    responses(
        (status = 200, body = Page<EventDto>, headers(("ETag" = String, description = "The version, in quotes"))),
        (status = 404, description = "There is no such stream"),
    ))]
pub(crate) async fn events(
    State(served): State<AppState>,
    InPath(stream): InPath<StreamName>,
    InQuery(asked): InQuery<ReadQuery>,
) -> Result<Response, Problem> {
    let query = match asked.backward {
        true => StreamQuery::backward(&stream),
        false => StreamQuery::forward(&stream),
    };
    let query = query.limit(served.limits().page(asked.limit)?);
    let from = match (asked.from, asked.after) {
        (Some(_), Some(_)) => {
            let detail = "either `from` or `after` can be given, and not both";
            return Err(Problem::bad_request("query-invalid", detail));
        }
        (from, None) => from,
        (None, Some(after)) => match after.first(asked.backward) {
            Some(from) => Some(from),
            // Nothing follows.
            None => {
                return shown(&stream, served.store().head(&stream).await?.state, Vec::new(), None);
            }
        },
    };
    let page = served.store().full_page(StreamQuery { from, ..query }).await?;
    let next = page.next.map(|next| VersionCursor::before(next, asked.backward));
    shown(&stream, page.state, page.events.into_iter().map(EventDto::from).collect(), next)
}

fn shown(
    stream: &StreamName,
    state: StreamState,
    events: Vec<EventDto>,
    next: Option<VersionCursor>,
) -> Result<Response, Problem> {
    let tag = etag(state).ok_or_else(|| no_stream(stream))?;
    Ok(([(ETAG, tag)], Json(Page::new(events, next))).into_response())
}

fn etag(state: StreamState) -> Option<String> {
    state.version().map(|version| format!("\"{version}\""))
}

fn no_stream(stream: &StreamName) -> Problem {
    Problem::not_found(
        "no-stream",
        format!("there is no stream {stream:?}: GET /v1/streams lists the existing ones"),
    )
}
