//! Watches a scope: a stream of its states, starting with the current one.

use axum::extract::State;
use axum::response::Response;
use axum::response::sse::Event;
use futures_util::stream;
use serde_json::Value;
use tidelock::problem::Problem;
use tidelock::scopes::ScopeWatch;

use super::{ScopeDto, ScopePath, scope, to_problem};
use crate::app_state::AppState;
use crate::extract::InPath;
use crate::sse;

/// Watch a scope by server-sent events.
///
/// Each is named `scope`, has the revision as its `id`, and the scope as its data: always the
/// newest state, not necessarily every one before it. A deleted scope has the `state` `null`.
#[utoipa::path(get, path = "/v1/scopes/{kind}/{id}/watch", tag = "scopes",
    params(ScopePath),
    responses((status = 200, description = "States, until the client disconnects", body = String, content_type = "text/event-stream")))]
pub(crate) async fn watch(
    State(served): State<AppState>,
    InPath(which): InPath<ScopePath>,
) -> Result<Response, Problem> {
    let scope = scope(&served, &which, None)?;
    // Errors are found before the stream begins.
    scope.load().await.map_err(to_problem)?;
    let watch = scope.watch().map_err(to_problem)?;
    sse::answer(&served, stream::unfold((which, watch), next))
}

/// The next state. A store failure ends the stream; a new one starts with the newest state.
async fn next((which, mut watch): (ScopePath, Watch)) -> Option<(Event, (ScopePath, Watch))> {
    let document = watch.next().await.ok()?;
    let revision = document.revision.map(|revision| revision.to_string());
    let event = sse::event("scope", revision, &ScopeDto::of(&which, &document).ok()?);
    Some((event, (which, watch)))
}

type Watch = ScopeWatch<Value>;
