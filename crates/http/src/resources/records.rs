//! Records: JSON under a key. Written by [commits](super::commits), read here.

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use serde::{Deserialize, Serialize};
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::store::{RawJson, Record, RecordKey, RecordQuery, Revision, StoreExt};
use utoipa::{IntoParams, ToSchema};

use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::paging::Page;

/// The prefix of reserved keys.
const RESERVED: char = '~';

/// A record.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Record)]
pub(crate) struct RecordDto {
    /// Its key.
    #[schema(value_type = String, example = "orders/7")]
    key: RecordKey,
    /// Increases with every write.
    #[schema(value_type = u64, minimum = 1)]
    revision: Revision,
    /// Its value.
    #[schema(value_type = Value)]
    value: RawJson,
    /// When it expires, if ever.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
}

impl From<Record> for RecordDto {
    fn from(Record { key, revision, value, expires_at }: Record) -> Self {
        Self { key, revision, value, expires_at }
    }
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// A prefix of their keys.
    #[param(min_length = 1, max_length = 512)]
    prefix: String,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<RecordKey>,
    /// The maximum number of records.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List records whose keys share a prefix, by key.
#[utoipa::path(get, path = "/v1/records", tag = "records", params(ListQuery), responses((status = 200, body = Page<RecordDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(ListQuery { prefix, after, limit }): InQuery<ListQuery>,
) -> Result<Answer<Page<RecordDto>>, Problem> {
    if prefix.is_empty() {
        let detail = "the prefix is empty: give the beginning of the keys";
        return Err(Problem::bad_request("prefix-missing", detail));
    }
    refuse_reserved(&prefix)?;
    let limit = served.limits().page(limit)?;
    let query = RecordQuery { after, ..RecordQuery::prefix(prefix) }.limit(limit);
    let page = served.store().full_page(query).await?;
    Ok(Answer(Page::new(page.records.into_iter().map(RecordDto::from).collect(), page.next)))
}

/// Read a record. Its revision is the `ETag`.
#[utoipa::path(get, path = "/v1/records/{key}", tag = "records",
    params(("key" = String, Path, description = "Its key", min_length = 1, max_length = 512)),
    responses(
        (status = 200, body = RecordDto, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "There is no such record"),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(key): InPath<RecordKey>,
) -> Result<Response, Problem> {
    check_is_not_reserved(&key)?;
    match served.store().get_one(&key).await?.into_live() {
        Some(record) => {
            let tag = format!("\"{}\"", record.revision);
            Ok(([(ETAG, tag)], Answer(RecordDto::from(record))).into_response())
        }
        None => {
            let detail = format!("there is no record {key:?}, or it was deleted or has expired");
            Err(Problem::not_found("no-record", detail))
        }
    }
}

/// Refuses a key of Tidelock's own records.
pub(super) fn check_is_not_reserved(key: &RecordKey) -> Result<(), Problem> {
    refuse_reserved(key.as_str())
}

fn refuse_reserved(key: &str) -> Result<(), Problem> {
    match key.starts_with(RESERVED) {
        true => {
            let detail = format!("record {key:?}: keys that begin with {RESERVED} are reserved");
            Err(Problem::forbidden("name-reserved", detail))
        }
        false => Ok(()),
    }
}
