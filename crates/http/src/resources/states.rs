//! The state of an aggregate, current or past: of kinds that the serving program has registered.

use axum::Json as Answer;
use axum::extract::State;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tidelock::events::LoadError;
use tidelock::problem::Problem;
use tidelock::store::{RawJson, Version};
use utoipa::{IntoParams, ToSchema};

use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};

/// The state of an aggregate.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AggregateState)]
pub(crate) struct StateDto {
    /// The kind of the aggregate.
    #[schema(example = "stock")]
    kind: String,
    /// Its id.
    #[schema(example = "sku-7")]
    id: String,
    /// The version of its stream at this state.
    #[schema(value_type = u64, minimum = 1)]
    version: Version,
    /// The state.
    #[schema(value_type = Value)]
    state: RawJson,
}

/// The version to show.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct StateQuery {
    /// At this version; the current one by default.
    #[param(value_type = Option<u64>, minimum = 1)]
    version: Option<Version>,
}

/// Read the state of an aggregate, current or past.
#[utoipa::path(get, path = "/v1/states/{kind}/{id}", tag = "states",
    params(
        ("kind" = String, Path, description = "The kind of the aggregate"),
        ("id" = String, Path, description = "Its id"),
        StateQuery,
    ),
    responses(
        (status = 200, body = StateDto),
        (status = 404, description = "The kind is not registered, or there is no such aggregate or version"),
        (status = 410, description = "Its events were removed"),
    ))]
pub(crate) async fn show(
    State(served): State<AppState>,
    InPath((kind, id)): InPath<(String, String)>,
    InQuery(at): InQuery<StateQuery>,
) -> Result<Answer<StateDto>, Problem> {
    let read = served.setup.kinds.get(&kind).ok_or_else(|| unknown(&served, &kind))?;
    let read = read(served.tidelock(), &id, at.version).await.map_err(not_loaded)?;
    let none =
        || Problem::not_found("no-aggregate", format!("there is no {kind} with the id {id:?}"));
    let version = read.version.ok_or_else(none)?;
    Ok(Answer(StateDto { version, state: read.state, kind, id }))
}

fn unknown(served: &AppState, kind: &str) -> Problem {
    let known = served.setup.kinds.names();
    let detail = match known.is_empty() {
        true => format!(
            "the state of a {kind:?} cannot be shown: this server has no registered kinds; a program that embeds it can register them (Api::aggregate)"
        ),
        false => format!(
            "the state of a {kind:?} cannot be shown: this server has the kinds {}",
            known.join(", ")
        ),
    };
    Problem::not_found("kind-unknown", detail).with("kinds", known)
}

fn not_loaded(error: LoadError) -> Problem {
    let detail = error.to_string();
    match error {
        LoadError::Store(error) => error.into(),
        LoadError::NotReached { .. } => Problem::not_found("not-reached", detail),
        LoadError::Trimmed { .. } | LoadError::Closed { .. } => {
            Problem::new(StatusCode::GONE, "events-gone", detail)
        }
        _ => Problem::internal("unreadable", detail),
    }
}
