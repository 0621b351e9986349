//! What every change of a scope begins with: which one, on what condition, for how long it lives,
//! and that it is made once.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidelock::scopes::Mutation;
use utoipa::IntoParams;

use super::super::span::Millis;
use super::precondition::Precondition;
use super::{Which, scope};
use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::idempotency::IdempotencyScope;
use crate::problem::Problem;

/// The mutation that a request asks for, still to be made; and the rest of its query.
#[derive(Debug)]
pub(crate) struct Mutating<Q = Living> {
    pub(super) mutation: Mutation<Value>,
    pub(super) query: Q,
}

/// A query that says how long the scope lives, if anything.
pub(super) trait Lives {
    /// It goes away so long after its last change.
    fn lives_ms(&self) -> Option<Millis>;
}

/// How long the scope lives.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Living {
    /// It goes away so long after its last change. Kinds of your own stay, if this is left out;
    /// `request` and `session` have a life of their own.
    #[param(value_type = Option<u64>, minimum = 1)]
    pub(super) lives_ms: Option<Millis>,
}

impl Lives for Living {
    fn lives_ms(&self) -> Option<Millis> {
        self.lives_ms
    }
}

impl<Q: DeserializeOwned + Lives> FromRequestParts<AppState> for Mutating<Q> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, served: &AppState) -> Result<Self, Problem> {
        let InPath(which): InPath<Which> = InPath::from_request_parts(parts, served).await?;
        let InQuery(query): InQuery<Q> = InQuery::from_request_parts(parts, served).await?;
        let scope = scope(served, &which, query.lives_ms())?;
        let mutation = Precondition::of(&parts.headers)?.mutation(&scope)?;
        Ok(Self { mutation: IdempotencyScope::of(parts).mutation(mutation), query })
    }
}
