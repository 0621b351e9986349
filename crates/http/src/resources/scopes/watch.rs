//! Watches a scope: a stream of its states, starting with the current one.

use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use tidelock::scopes::ScopeWatch;

use super::{ScopeDto, ScopePath, scope, to_problem};
use crate::app_state::AppState;
use crate::extract::InPath;
use crate::problem::Problem;
use crate::sse::{self, Piece, Source};

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
    sse::answer(&served, WatchSource { which, watch })
}

struct WatchSource {
    which: ScopePath,
    watch: ScopeWatch<Value>,
}

impl Source for WatchSource {
    async fn next(&mut self) -> Option<Piece> {
        // A store failure ends the stream; a new one starts with the newest state.
        let document = self.watch.next().await.ok()?;
        let shown = ScopeDto::of(&self.which, &document).ok()?;
        let mut piece = Piece::default();
        let id = document.revision.map(|revision| revision.to_string());
        piece.push("scope", id.as_ref().map(|id| id as &dyn std::fmt::Display), &shown);
        Some(piece)
    }
}
