//! The extractor of every scope mutation: the scope, its precondition, its TTL, and the idempotency
//! scope.

use axum::extract::FromRequestParts;
use http::request::Parts;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidelock::problem::Problem;
use tidelock::scopes::Mutation;
use utoipa::IntoParams;

use super::super::durations::Millis;
use super::precondition::Precondition;
use super::{ScopePath, scope};
use crate::app_state::AppState;
use crate::extract::{InPath, InQuery};
use crate::idempotency::IdempotencyScope;

/// The requested mutation, yet to be executed; and the rest of the query.
#[derive(Debug)]
pub(crate) struct MutationRequest<Q = TtlQuery> {
    pub(super) mutation: Mutation<Value>,
    pub(super) query: Q,
}

/// A query with an optional TTL.
pub(super) trait HasTtl {
    /// The scope expires this long after its last change.
    fn ttl_ms(&self) -> Option<Millis>;
}

/// The TTL of a scope.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct TtlQuery {
    /// The scope expires this long after its last change. Without it, scopes of your own kinds
    /// never expire; `request` and `session` have their own TTL.
    #[param(value_type = Option<u64>, minimum = 1)]
    pub(super) ttl_ms: Option<Millis>,
}

impl HasTtl for TtlQuery {
    fn ttl_ms(&self) -> Option<Millis> {
        self.ttl_ms
    }
}

impl<Q: DeserializeOwned + HasTtl> FromRequestParts<AppState> for MutationRequest<Q> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, served: &AppState) -> Result<Self, Problem> {
        let InPath(which): InPath<ScopePath> = InPath::from_request_parts(parts, served).await?;
        let InQuery(query): InQuery<Q> = InQuery::from_request_parts(parts, served).await?;
        let scope = scope(served, &which, query.ttl_ms())?;
        let mutation = Precondition::of(&parts.headers)?.mutation(&scope)?;
        Ok(Self { mutation: IdempotencyScope::of(parts).mutation(mutation), query })
    }
}
