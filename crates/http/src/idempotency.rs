//! `Idempotency-Key` on every route that writes, through the layer of `tidelock-tower`.
//!
//! A key belongs to whoever has the token. What was refused (4xx) changed nothing, so it is not kept: who sends it again, under the same
//! key, has it judged again.

use http::request::Parts;
use http::{Method, StatusCode};
use tidelock_tower::IdempotencyLayer;

use crate::auth::Caller;
use crate::limits;
use crate::problem;
use crate::served::Served;

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
