//! Scopes: state documents that many clients mutate concurrently.

mod entries;
mod mutation_request;
mod mutations;
mod precondition;
pub(super) mod problems;
mod watch;

use axum::Json as Answer;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::ETAG;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tidelock::Timestamp;
use tidelock::problem::Problem;
use tidelock::scopes::{Document, ScopeFilter, ScopeInfo};
use tidelock::scopes::{Scope, ScopeError, ScopeKind};
use tidelock::store::{RawJson, RecordKey, Revision};
use utoipa::{IntoParams, ToSchema};

use super::durations::{self, Millis};
use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::paging::Page;

pub(crate) use entries::*;
pub(crate) use mutations::*;
use problems::to_problem;
pub(crate) use watch::*;

/// The kind of this name: built-in, with its own TTL, or the client's.
pub(super) fn kind(name: &str, ttl_ms: Option<Millis>) -> Result<ScopeKind, Problem> {
    let standard = [ScopeKind::REQUEST, ScopeKind::SESSION, ScopeKind::USER, ScopeKind::ORG];
    let kind = standard.into_iter().find(|kind| kind.name() == name);
    let kind = kind.unwrap_or_else(|| ScopeKind::custom(name.to_owned()));
    match ttl_ms {
        Some(millis) => Ok(kind.ttl(durations::some(millis, "ttl_ms")?)),
        None => Ok(kind),
    }
}

/// The scope of the path.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct ScopePath {
    /// Its kind.
    #[param(min_length = 1)]
    kind: String,
    /// Its id.
    #[param(min_length = 1)]
    id: String,
}

fn scope(
    served: &AppState,
    which: &ScopePath,
    ttl_ms: Option<Millis>,
) -> Result<Scope<Value>, Problem> {
    Ok(served.tidelock().scope(kind(&which.kind, ttl_ms)?, &which.id))
}

/// A scope's document and revision.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Scope)]
pub(crate) struct ScopeDto {
    /// Its kind.
    #[schema(example = "user")]
    kind: String,
    /// Its id among those of its kind.
    #[schema(example = "ada")]
    id: String,
    /// Increases with every write.
    #[schema(value_type = Option<u64>, minimum = 1)]
    revision: Option<Revision>,
    /// When it expires, unless it is changed before.
    #[schema(value_type = Option<String>, format = DateTime)]
    expires_at: Option<Timestamp>,
    /// Its document; `null` if it does not exist.
    #[schema(value_type = Value)]
    state: RawJson,
}

impl From<ScopeInfo> for ScopeDto {
    fn from(scope: ScopeInfo) -> Self {
        let ScopeInfo { kind, id, revision, expires_at, state } = scope;
        Self { kind, id, revision: Some(revision), expires_at, state }
    }
}

impl ScopeDto {
    fn of(ScopePath { kind, id }: &ScopePath, document: &Document<Value>) -> Result<Self, Problem> {
        let state = RawJson::new(&document.state)?;
        let (revision, expires_at) = (document.revision, document.expires_at);
        Ok(Self { kind: kind.clone(), id: id.clone(), revision, expires_at, state })
    }
}

/// The query of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Of this kind; of every kind by default.
    kind: Option<String>,
    /// A prefix of their ids; only with a kind.
    #[serde(default)]
    prefix: String,
    /// The cursor: `next` of the previous page.
    #[param(value_type = Option<String>)]
    after: Option<RecordKey>,
    /// The maximum number of scopes.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// List scopes, by kind and id.
#[utoipa::path(get, path = "/v1/scopes", tag = "scopes", params(ListQuery), responses((status = 200, body = Page<ScopeDto>)))]
pub(crate) async fn list(
    State(served): State<AppState>,
    InQuery(asked): InQuery<ListQuery>,
) -> Result<Answer<Page<ScopeDto>>, Problem> {
    let limit = served.limits().page(asked.limit)?;
    if asked.kind.is_none() && !asked.prefix.is_empty() {
        let detail = "a prefix applies to the ids of one kind: add kind";
        return Err(Problem::bad_request("kind-missing", detail));
    }
    let filter = asked.kind.map_or_else(ScopeFilter::all, ScopeFilter::kind);
    let scopes = served.tidelock().scopes().list(&filter.id_prefix(asked.prefix));
    let page = scopes.after(asked.after).limit(limit).await?;
    Ok(Answer(Page::new(page.items.into_iter().map(ScopeDto::from).collect(), page.next)))
}

/// Read a scope's document. Its revision is the `ETag`.
#[utoipa::path(get, path = "/v1/scopes/{kind}/{id}", tag = "scopes",
    params(ScopePath),
    responses(
        (status = 200, body = ScopeDto, headers(("ETag" = String, description = "The revision, in quotes"))),
        (status = 404, description = "The scope never existed"),
        (status = 410, description = "The scope was deleted, or has expired"),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath(which): InPath<ScopePath>,
) -> Result<Response, Problem> {
    let document = scope(&served, &which, None)?.load().await.map_err(to_problem)?;
    match (&document.state, document.revision) {
        (Some(_), Some(revision)) => {
            let tag = format!("\"{revision}\"");
            Ok(([(ETAG, tag)], Answer(ScopeDto::of(&which, &document)?)).into_response())
        }
        (_, revision) => {
            let scope = format!("{}/{}", which.kind, which.id);
            Err(to_problem(ScopeError::Gone { scope, revision }))
        }
    }
}
