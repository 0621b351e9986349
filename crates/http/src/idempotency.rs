//! `Idempotency-Key` on every route that writes, through the layer of `tidelock-tower`.
//!
//! A key belongs to whoever has the token. What was refused (4xx) changed nothing, so it is not kept: who sends it again, under the same
//! key, has it judged again.
//!
//! A server that dies after it did what was asked, and before it kept its answer, leaves a key of which nobody knows what became. What can be done once under a name
//! in the store has [one that comes from the key](Once), so that whoever sends the same again is answered with what was done the first time.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tidelock::EventId;
use tidelock::scopes::Mutation;
use tidelock_tower::IdempotencyLayer;

use crate::auth::Caller;
use crate::limits;
use crate::problem;
use crate::served::Served;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The layer around what writes.
pub(crate) fn layer(served: &Served) -> IdempotencyLayer {
    IdempotencyLayer::new(served.tidelock())
        .methods([Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        .ttl(limits::IDEMPOTENCY)
        .scope(scope)
        .releasing((400..500).filter_map(|status| StatusCode::from_u16(status).ok()))
        .max_request_bytes(served.limits().body_bytes)
        .problems_at(problem::TYPES)
}

fn scope(request: &Parts) -> Option<String> {
    request.extensions.get::<Caller>().map(|caller| caller.shown().to_owned())
}

/// What a request is known by when it is sent again: whose it is, and its key. Without a key there is nothing.
#[derive(Debug)]
pub(crate) struct Once(Option<(String, HeaderValue)>);

impl<S: Send + Sync> FromRequestParts<S> for Once {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let key = parts.headers.get(&KEY).cloned();
        Ok(Self(scope(parts).zip(key)))
    }
}

impl Once {
    /// An id that the same request has again for its part with this content.
    pub(crate) fn id(&self, content: &[&[u8]]) -> Option<EventId> {
        let (caller, key) = self.0.as_ref()?;
        let mut parts = vec![caller.as_bytes(), key.as_bytes()];
        parts.extend(content);
        Some(id_of(&parts))
    }

    /// The same mutation, made once however often the request is sent.
    pub(crate) fn of(&self, mutation: Mutation<Value>) -> Mutation<Value> {
        match self.id(&[]) {
            Some(id) => mutation.operation(id.to_string()).remembered_for(limits::IDEMPOTENCY),
            None => mutation,
        }
    }
}

fn id_of(parts: &[&[u8]]) -> EventId {
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
