//! A layer that makes each request part of the trace that its headers name.
//!
//! With it, whatever a handler appends, starts or enqueues carries the request's `traceparent`,
//! whether or not the program uses OpenTelemetry.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tidelock::TraceContext;
use tower_layer::Layer;
use tower_service::Service;
use tracing::Instrument;

/// Reads `traceparent` and `tracestate` of each request, and handles it in a span of its own.
///
/// Put it outside of an [`IdempotencyLayer`](crate::IdempotencyLayer). A program that has another
/// layer for traces, such as that of `axum-tracing-opentelemetry`, needs none of this: with the
/// feature `otel` of `tidelock`, the trace of the current span is used.
///
/// # Examples
///
/// ```
/// use axum::Router;
/// use axum::routing::post;
/// use tidelock::TraceContext;
/// use tidelock_tower::TraceContextLayer;
///
/// async fn place() -> String {
///     TraceContext::current().map(|trace| trace.trace_id()).unwrap_or_default()
/// }
///
/// let routes: Router = Router::new().route("/orders", post(place)).layer(TraceContextLayer::new());
/// # let _ = routes;
/// ```
#[derive(Debug, Clone, Copy, Default)]
#[must_use = "a layer does nothing until it is around a service"]
pub struct TraceContextLayer {}

impl TraceContextLayer {
    /// Creates the layer.
    pub fn new() -> Self {
        Self {}
    }
}

impl<S> Layer<S> for TraceContextLayer {
    type Service = TraceContextService<S>;

    fn layer(&self, inner: S) -> TraceContextService<S> {
        TraceContextService { inner }
    }
}

/// A service behind a [`TraceContextLayer`].
#[derive(Debug, Clone)]
pub struct TraceContextService<S> {
    inner: S,
}

impl<S, A, B> Service<Request<A>> for TraceContextService<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let header = |name: &str| request.headers().get(name)?.to_str().ok();
        let trace = TraceContext::from_headers(header);
        let span = tracing::info_span!(
            "request",
            otel.name = %request.method(),
            otel.kind = "server",
            http.request.method = %request.method(),
            http.response.status_code = tracing::field::Empty,
        );
        if let Some(trace) = &trace {
            trace.continue_in(&span);
        }
        let handled = self.inner.call(request);
        let answered = async move {
            let handled = match trace {
                Some(trace) => trace.scope(handled).await,
                None => handled.await,
            };
            if let Ok(response) = &handled {
                let status = response.status().as_u16();
                tracing::Span::current().record("http.response.status_code", status);
            }
            handled
        };
        Box::pin(answered.instrument(span))
    }
}
