//! `Idempotency-Key` on every route that writes, through the layer of `tidelock-tower`.
//!
//! A key belongs to whoever has the token. What was refused (4xx) changed nothing, so it is not
//! kept: who sends it again, under the same key, has it judged again.
//!
//! A server that dies after it did what was asked, and before it kept its answer, leaves a key of
//! which nobody knows what became. What is done once under a name in the store has [one that comes
//! from the key](Once), so that whoever sends the same again is answered with what was done the
//! first time.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{Method, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tidelock::EventId;
use tidelock::claims::Claims;
use tidelock::runs::RunHandle;
use tidelock::scopes::Mutation;
use tidelock_tower::{IdempotencyKey, IdempotencyLayer};

use crate::app_state::AppState;
use crate::auth::Caller;
use crate::limits;
use crate::problem;

/// The layer around what writes.
pub(crate) fn layer(served: &AppState) -> IdempotencyLayer {
    IdempotencyLayer::new(served.tidelock())
        .methods([Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .ttl(limits::IDEMPOTENCY)
        .scope(|request| request.extensions.get::<Caller>().map(|caller| caller.shown().to_owned()))
        .releasing((400..500).filter_map(|status| StatusCode::from_u16(status).ok()))
        .max_request_bytes(served.limits().body_bytes)
        .problems_at(problem::TYPES)
}

/// What a request is known by when it is sent again: whose it is, its key, and what it asks for.
/// Without a key there is nothing.
///
/// What it asks for counts, because an operator can free a key, and another request come under it.
#[derive(Debug)]
pub(crate) struct IdempotencyScope(Option<[String; 2]>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyScope {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(parts))
    }
}

impl IdempotencyScope {
    /// Of this request, as it is behind the layer.
    pub(crate) fn of(parts: &Parts) -> Self {
        let claimed = parts.extensions.get::<IdempotencyKey>();
        Self(claimed.map(|claimed| [claimed.key().to_owned(), claimed.fingerprint().to_string()]))
    }

    /// Whether it can be sent again.
    pub(crate) fn is_keyed(&self) -> bool {
        self.0.is_some()
    }

    /// An id that the same request has again for this part of it.
    pub(crate) fn id(&self, part: &[u8]) -> Option<EventId> {
        let [key, fingerprint] = self.0.as_ref()?;
        Some(id_of([key.as_bytes(), fingerprint.as_bytes(), part]))
    }

    /// The id of what it asks for, as a whole.
    pub(crate) fn operation(&self) -> Option<String> {
        self.id(&[]).map(|id| id.to_string())
    }

    /// The same mutation, made once however often the request is sent.
    pub(crate) fn mutation(&self, mutation: Mutation<Value>) -> Mutation<Value> {
        match self.operation() {
            Some(id) => mutation.operation_id(id).dedup_window(limits::IDEMPOTENCY),
            None => mutation,
        }
    }

    /// The same run, for something that is asked of it once however often the request is sent.
    pub(crate) fn run(&self, run: RunHandle) -> RunHandle {
        match self.operation() {
            Some(id) => run.operation_id(id),
            None => run,
        }
    }
}

/// The claims of the store, for one that is taken once however often the request is sent.
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
    // Version 8 of the variant that everybody uses: made by whoever made it.
    id[6] = (id[6] & 0x0f) | 0x80;
    id[8] = (id[8] & 0x3f) | 0x80;
    EventId::from_bytes(id)
}
