//! `Idempotency-Key` on every route that writes, by the layer of `tidelock-tower`.
//!
//! A key belongs to the token. A refused request (4xx) changed nothing, so its response is not
//! kept: sent again under the same key, it is judged again.
//!
//! A server that dies after it carried out a request, and before it recorded the response, leaves a
//! key with an unknown outcome. So everything that the store does once under an id gets [an id
//! derived from the key](IdempotencyScope): a retry of the request is answered with the result of
//! the first.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tidelock::claims::Claims;
use tidelock::runs::RunHandle;
use tidelock::scopes::Mutation;
use tidelock::store::EventId;
use tidelock_tower::{IdempotencyKey, IdempotencyLayer};

use crate::app_state::AppState;
use crate::auth::Caller;
use crate::limits;

/// The layer around routes that write.
pub(crate) fn layer(served: &AppState) -> IdempotencyLayer {
    IdempotencyLayer::new(served.tidelock())
        .methods([Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .ttl(limits::IDEMPOTENCY)
        .scope(|request| request.extensions.get::<Caller>().map(|caller| caller.shown().to_owned()))
        .releasing((400..500).filter_map(|status| StatusCode::from_u16(status).ok()))
        .max_request_bytes(served.limits().body_bytes)
        .problems_at(tidelock::problem::TYPES)
}

/// The identity of a request across retries: its caller, its key, and its content. Without a key
/// there is none.
///
/// The content counts because an operator can free a key, and another request can then use it.
#[derive(Debug)]
pub(crate) struct IdempotencyScope(Option<[String; 2]>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyScope {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

impl IdempotencyScope {
    /// The scope of this request, taken behind the layer.
    pub(crate) fn of(parts: &Parts) -> Self {
        let claimed = parts.extensions.get::<IdempotencyKey>();
        Self(claimed.map(|claimed| [claimed.key().to_owned(), claimed.fingerprint().to_string()]))
    }

    /// Whether the request has a key.
    pub(crate) fn is_keyed(&self) -> bool {
        self.0.is_some()
    }

    /// Derives an id for this part of the request, equal in every retry.
    pub(crate) fn id(&self, part: &[u8]) -> Option<EventId> {
        let [key, fingerprint] = self.0.as_ref()?;
        Some(id_of([key.as_bytes(), fingerprint.as_bytes(), part]))
    }

    /// The id of the whole request.
    pub(crate) fn operation(&self) -> Option<String> {
        self.id(&[]).map(|id| id.to_string())
    }

    /// Gives a mutation this request's id, so that retries apply it once.
    pub(crate) fn mutation(&self, mutation: Mutation<Value>) -> Mutation<Value> {
        match self.operation() {
            Some(id) => mutation.operation_id(id).dedup_window(limits::IDEMPOTENCY),
            None => mutation,
        }
    }

    /// Gives a run handle this request's id, so that retries have one effect.
    pub(crate) fn run(&self, run: RunHandle) -> RunHandle {
        match self.operation() {
            Some(id) => run.operation_id(id),
            None => run,
        }
    }
}

/// The store's claims, with this request's id, so that retries claim once.
#[derive(Debug)]
pub(crate) struct OnceClaims(pub(crate) Claims);

impl FromRequestParts<AppState> for OnceClaims {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, served: &AppState) -> Result<Self, Infallible> {
        let claims = served.tidelock().claims();
        Ok(Self(match IdempotencyScope::of(parts).operation() {
            Some(id) => claims.operation_id(id).dedup_window(limits::IDEMPOTENCY),
            None => claims,
        }))
    }
}

fn id_of(parts: [&[u8]; 3]) -> EventId {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let mut id = [0; 16];
    id.copy_from_slice(&digest.finalize()[..16]);
    // Version 8 (custom), RFC 9562 variant.
    id[6] = (id[6] & 0x0f) | 0x80;
    id[8] = (id[8] & 0x3f) | 0x80;
    EventId::from_bytes(id)
}
