//! The service: sorts out which requests have a key, and lets the others through untouched.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::attempt;
use crate::body::ResponseBody;
use crate::edge::Config;
use crate::future::ResponseFuture;

/// A service behind an [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Debug, Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    edge: Arc<Config>,
}

impl<S> IdempotencyService<S> {
    pub(crate) fn new(inner: S, edge: Arc<Config>) -> Self {
        Self { inner, edge }
    }
}

impl<S: Clone> IdempotencyService<S> {
    /// The service that was asked whether it is ready, and not a clone of it that was not.
    fn ready(&mut self) -> S {
        let clone = self.inner.clone();
        mem::replace(&mut self.inner, clone)
    }
}

impl<S, A, B> Service<Request<A>> for IdempotencyService<S>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    A: Body<Data = Bytes> + From<Bytes> + Send + 'static,
    A::Error: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
{
    type Response = Response<ResponseBody<B>>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, B, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (parts, body) = request.into_parts();
        match self.edge.name(&parts) {
            Ok(Some(name)) => {
                let (inner, edge) = (self.ready(), self.edge.clone());
                ResponseFuture::keyed(attempt::begin(edge, name, inner, parts, body))
            }
            Ok(None) => ResponseFuture::passed(self.inner.call(Request::from_parts(parts, body))),
            Err(problem) => ResponseFuture::refused(self.edge.refuse(problem)),
        }
    }
}
