//! The service: handles requests with a key, and passes the others through.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use crate::attempt;
use crate::body::ResponseBody;
use crate::config::Config;
use crate::future::ResponseFuture;

/// A service behind an [`IdempotencyLayer`](crate::IdempotencyLayer).
#[derive(Debug, Clone)]
pub struct IdempotencyService<S> {
    inner: S,
    config: Arc<Config>,
}

impl<S> IdempotencyService<S> {
    pub(crate) fn new(inner: S, config: Arc<Config>) -> Self {
        Self { inner, config }
    }
}

impl<S: Clone> IdempotencyService<S> {
    /// Returns the instance that was polled ready, and leaves a clone in its place.
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
        match self.config.name(&parts) {
            Ok(Some(name)) => {
                let (inner, config) = (self.ready(), self.config.clone());
                ResponseFuture::keyed(attempt::begin(config, name, inner, parts, body))
            }
            Ok(None) => ResponseFuture::passed(self.inner.call(Request::from_parts(parts, body))),
            Err(problem) => ResponseFuture::refused(self.config.refuse(problem)),
        }
    }
}
