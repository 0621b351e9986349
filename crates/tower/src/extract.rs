//! [`IdempotencyKey`] as an extractor of axum.

use std::convert::Infallible;

use axum_core::body::Body;
use axum_core::extract::{FromRequestParts, OptionalFromRequestParts};
use http::Response;
use http::request::Parts;

use crate::idempotency_key::IdempotencyKey;
use crate::options::Options;
use crate::problem::Problem;

impl<S: Sync> FromRequestParts<S> for IdempotencyKey {
    /// The answer to a request without a claimed key: 400, as of a route that
    /// [requires](crate::IdempotencyLayer::required) one.
    type Rejection = Response<Body>;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let claimed = parts.extensions.get::<Self>().cloned();
        claimed.ok_or_else(|| Problem::KeyMissing.response(&Options::default()).map(Body::from))
    }
}

impl<S: Sync> OptionalFromRequestParts<S> for IdempotencyKey {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Infallible> {
        Ok(parts.extensions.get::<Self>().cloned())
    }
}
