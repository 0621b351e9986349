//! The bridge to OpenTelemetry: the trace of the current span of `tracing`, and spans that continue
//! or link a stored trace.

use opentelemetry::Context;
use opentelemetry::trace::{
    SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState,
};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

use crate::trace_context::TraceContext;

/// The trace of the current span, if a layer of OpenTelemetry knows it.
pub(crate) fn current() -> Option<TraceContext> {
    let span = Span::current();
    // Without an enabled span there is none, which is the cheap answer.
    span.id()?;
    let context = span.context();
    let of_span = context.span();
    let of_span = of_span.span_context();
    let (trace, id) = (of_span.trace_id().to_bytes(), of_span.span_id().to_bytes());
    let sampled = of_span.is_sampled();
    let found = TraceContext::new(u128::from_be_bytes(trace), u64::from_be_bytes(id), sampled)?;
    Some(found.with_state(&of_span.trace_state().header()))
}

/// Makes the span a part of this trace.
pub(crate) fn continue_trace(span: &Span, trace: &TraceContext) {
    let parent = Context::new().with_remote_span_context(remote(trace));
    // It fails for a span that no layer of OpenTelemetry knows: then there is nothing to continue.
    let _continued = span.set_parent(parent);
}

/// Links the span to this trace.
pub(crate) fn link(span: &Span, trace: &TraceContext) {
    span.add_link(remote(trace));
}

fn remote(trace: &TraceContext) -> SpanContext {
    let (trace_id, span_id, flags) = trace.ids();
    let state = trace.state().and_then(|state| state.parse::<TraceState>().ok());
    SpanContext::new(
        TraceId::from_bytes(trace_id.to_be_bytes()),
        SpanId::from_bytes(span_id.to_be_bytes()),
        TraceFlags::new(flags),
        true,
        state.unwrap_or_default(),
    )
}
