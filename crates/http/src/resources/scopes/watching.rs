//! Watching a scope: its states, one after the other, beginning with the one that it has.

use axum::extract::State;
use axum::response::Response;
use serde_json::Value;
use tidelock::scopes::ScopeWatch;

use super::{ScopeDto, Which, refused, scope};
use crate::app_state::AppState;
use crate::extract::InPath;
use crate::problem::Problem;
use crate::sse::{self, Piece, Source};

/// Watch a scope by server-sent events.
///
/// Each is called `scope`, has the revision as its `id`, and the scope as its data: the newest,
/// always, and not necessarily every one before it. That it is gone is told by a `state` of `null`.
#[utoipa::path(get, path = "/v1/scopes/{kind}/{id}/watch", tag = "scopes",
    params(Which),
    responses((status = 200, description = "States, for as long as the client stays", body = String, content_type = "text/event-stream")))]
pub(crate) async fn watch(
    State(served): State<AppState>,
    InPath(which): InPath<Which>,
) -> Result<Response, Problem> {
    let scope = scope(&served, &which, None)?;
    // What can be refused is refused before the stream begins.
    scope.load().await.map_err(refused)?;
    let watch = scope.watch().map_err(refused)?;
    sse::answer(&served, Watched { which, watch })
}

struct Watched {
    which: Which,
    watch: ScopeWatch<Value>,
}

impl Source for Watched {
    async fn next(&mut self) -> Option<Piece> {
        // A store that fails ends the stream; whoever asks again begins with the newest state.
        let document = self.watch.next().await.ok()?;
        let shown = ScopeDto::of(&self.which, &document).ok()?;
        let mut piece = Piece::default();
        let id = document.revision.map(|revision| revision.to_string());
        piece.push("scope", id.as_ref().map(|id| id as &dyn std::fmt::Display), &shown);
        Some(piece)
    }
}
