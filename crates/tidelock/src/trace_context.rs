//! W3C trace context: the trace that a call is part of, as `traceparent` and `tracestate`.
//!
//! It is stored in the metadata of events and runs and beside the items of queues, so that what is
//! done about them later, perhaps by another process, belongs to the same trace. Nothing here needs
//! a tracing library: with the feature `otel`, the current trace is that of the current span, and
//! otherwise the one of the surrounding [`scope`](TraceContext::scope).

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidelock_store::StoredEvent;

use crate::metadata::Metadata;

tokio::task_local! {
    /// The trace that this task continues.
    static CURRENT: TraceContext;
}

/// The field of the trace and span ids, in metadata as in HTTP.
pub(crate) const TRACEPARENT: &str = "traceparent";
/// The field of the state that tracing systems add.
pub(crate) const TRACESTATE: &str = "tracestate";

/// How much of a `tracestate` has to be passed on.
const STATE_LENGTH: usize = 512;
/// How many members a `tracestate` has.
const STATE_MEMBERS: usize = 32;

/// A place in a trace: its id, and the span that what follows is part of.
///
/// # Examples
///
/// ```
/// use tidelock::TraceContext;
///
/// let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let trace: TraceContext = header.parse()?;
/// assert_eq!(trace.trace_id(), "0af7651916cd43dd8448eb211c80319c");
/// assert!(trace.is_sampled());
/// assert_eq!(trace.to_string(), header);
/// # Ok::<(), tidelock::InvalidTraceContext>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: u128,
    span_id: u64,
    flags: u8,
    state: Option<Arc<str>>,
}

/// A text that is no `traceparent`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no traceparent: {problem}")]
pub struct InvalidTraceContext {
    text: String,
    problem: &'static str,
}

impl TraceContext {
    /// Creates the place of a span in a trace; `None` if an id is zero.
    pub fn new(trace_id: u128, span_id: u64, is_sampled: bool) -> Option<Self> {
        let flags = u8::from(is_sampled);
        (trace_id != 0 && span_id != 0).then_some(Self { trace_id, span_id, flags, state: None })
    }

    /// Sets the `tracestate`. One that is not valid is left out, as the standard asks for.
    #[must_use]
    pub fn with_state(mut self, state: &str) -> Self {
        self.state = is_state(state).then(|| state.into());
        self
    }

    /// Reads it from the headers of a request; `None` if there is none, or it is not valid.
    pub fn from_headers<'h>(header: impl Fn(&str) -> Option<&'h str>) -> Option<Self> {
        let parent: Self = header(TRACEPARENT)?.trim().parse().ok()?;
        Some(match header(TRACESTATE) {
            Some(state) => parent.with_state(state.trim()),
            None => parent,
        })
    }

    /// Returns the trace that the running code is part of, if it is part of one.
    ///
    /// With the feature `otel` that is the one of the current span of `tracing`, if a layer of
    /// `tracing-opentelemetry` is installed. Otherwise it is that of the surrounding
    /// [`scope`](Self::scope).
    pub fn current() -> Option<Self> {
        #[cfg(feature = "otel")]
        if let Some(current) = crate::otel::current() {
            return Some(current);
        }
        CURRENT.try_with(Clone::clone).ok()
    }

    /// Runs a future as part of this trace: what it appends, starts and enqueues continues it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelock::prelude::*;
    /// use tidelock::TraceContext;
    ///
    /// #[derive(Debug, Default, Clone)]
    /// struct Door { is_open: bool }
    ///
    /// #[derive(Debug, Event)]
    /// struct Opened;
    ///
    /// impl Aggregate for Door {
    ///     const KIND: &'static str = "door";
    ///     type Event = Opened;
    ///
    ///     fn apply(&mut self, _: &Opened) { self.is_open = true; }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let door = tidelock.aggregate::<Door>("front");
    /// let trace: TraceContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
    /// trace.clone().scope(door.append(Opened)).await?;
    /// assert_eq!(door.history().await?[0].metadata.trace, Some(trace));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn scope<F: Future>(self, future: F) -> F::Output {
        CURRENT.scope(self, future).await
    }

    /// Runs a future as part of the trace that is current now: for a task that is spawned.
    ///
    /// # Examples
    ///
    /// ```
    /// use tidelock::TraceContext;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let trace: TraceContext = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse()?;
    /// let request = async {
    ///     tokio::spawn(TraceContext::carry(async { TraceContext::current() })).await
    /// };
    /// assert_eq!(trace.clone().scope(request).await?, Some(trace));
    /// # Ok(())
    /// # }
    /// ```
    pub fn carry<F: Future>(future: F) -> impl Future<Output = F::Output> {
        scoped(Self::current(), future)
    }

    /// Makes a span of `tracing` a part of this trace, if a layer of `tracing-opentelemetry` is
    /// installed and the feature `otel` is on; otherwise this does nothing.
    pub fn continue_in(&self, span: &tracing::Span) {
        continue_trace(span, self);
    }

    /// Returns the id of the trace: 32 hexadecimal digits.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace_id)
    }

    /// Returns the id of the span: 16 hexadecimal digits.
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span_id)
    }

    /// Returns whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 == 1
    }

    /// Returns the `tracestate`, if there is one.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }
}

#[cfg(feature = "otel")]
impl TraceContext {
    pub(crate) fn ids(&self) -> (u128, u64, u8) {
        (self.trace_id, self.span_id, self.flags)
    }
}

/// The traces of the events that are handled together.
#[derive(Debug, Default)]
pub(crate) struct Traces(Vec<TraceContext>);

impl Traces {
    /// The traces of these events, each once.
    pub(crate) fn of(events: &[StoredEvent]) -> Self {
        let mut traces = Vec::new();
        for event in events.iter().filter(|event| event.metadata.as_str().contains(TRACEPARENT)) {
            let trace = Metadata::of(event).trace.filter(|trace| !traces.contains(trace));
            traces.extend(trace);
        }
        Self(traces)
    }

    /// The trace that all of them are part of, if there is one: what is done continues it.
    pub(crate) fn one(&self) -> Option<&TraceContext> {
        let first = self.0.first()?;
        self.0.iter().all(|trace| trace.trace_id == first.trace_id).then_some(first)
    }

    /// Makes the span continue their trace, or link to each of several.
    pub(crate) fn enter(&self, span: &tracing::Span) {
        match self.one() {
            Some(trace) => continue_trace(span, trace),
            None => self.0.iter().for_each(|trace| link(span, trace)),
        }
    }
}

/// Makes the span a part of this trace, for OpenTelemetry.
pub(crate) fn continue_trace(span: &tracing::Span, trace: &TraceContext) {
    #[cfg(feature = "otel")]
    crate::otel::continue_trace(span, trace);
    #[cfg(not(feature = "otel"))]
    let _ = (span, trace);
}

fn link(span: &tracing::Span, trace: &TraceContext) {
    #[cfg(feature = "otel")]
    crate::otel::link(span, trace);
    #[cfg(not(feature = "otel"))]
    let _ = (span, trace);
}

/// Runs a future as part of this trace, if there is one.
pub(crate) async fn scoped<F: Future>(trace: Option<TraceContext>, future: F) -> F::Output {
    match trace {
        Some(trace) => trace.scope(future).await,
        None => future.await,
    }
}

/// The `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

/// Reads a `traceparent`. Of a later version, the part that this version knows is read.
impl FromStr for TraceContext {
    type Err = InvalidTraceContext;

    fn from_str(text: &str) -> Result<Self, InvalidTraceContext> {
        let invalid = |problem| InvalidTraceContext { text: text.to_owned(), problem };
        let mut parts = text.split('-');
        let mut part = |digits| {
            let part = parts.next().filter(|part| part.len() == digits && is_hex(part));
            part.ok_or_else(|| {
                invalid("it has the form 00-<32 digits>-<16 digits>-<2 digits>, in lower case")
            })
        };
        let (version, trace_id) = (part(2)?, part(32)?);
        let (span_id, flags) = (part(16)?, part(2)?);
        match version {
            "ff" => return Err(invalid("version ff is none")),
            "00" if parts.next().is_some() => return Err(invalid("version 00 has four parts")),
            _ => {}
        }
        let number = |part| u128::from_str_radix(part, 16).unwrap_or_default();
        let sampled = number(flags) & 1 == 1;
        let span_id = u64::try_from(number(span_id)).unwrap_or_default();
        Self::new(number(trace_id), span_id, sampled).ok_or_else(|| invalid("an id is zero"))
    }
}

fn is_hex(part: &str) -> bool {
    part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether a `tracestate` can be passed on.
fn is_state(state: &str) -> bool {
    let is_member = |member: &str| {
        let (key, value) = member.trim().split_once('=').unwrap_or_default();
        !key.is_empty() && !value.is_empty()
    };
    !state.is_empty()
        && state.len() <= STATE_LENGTH
        && state.split(',').count() <= STATE_MEMBERS
        && state.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && state.split(',').filter(|member| !member.trim().is_empty()).all(is_member)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// TRACE-2.
    #[test]
    fn a_traceparent_is_read_as_the_standard_says() {
        let trace: TraceContext = HEADER.parse().unwrap();
        assert_eq!(
            (trace.to_string(), trace.span_id()),
            (HEADER.into(), "b7ad6b7169203331".into())
        );
        let later = "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03-more";
        assert_eq!(later.parse::<TraceContext>().unwrap(), trace, "only known flags are kept");
        for invalid in [
            "",
            "00",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "0\u{e9}-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ] {
            let error = invalid.parse::<TraceContext>().unwrap_err();
            assert!(error.to_string().contains("is no traceparent"), "{error}");
        }
    }

    /// TRACE-2.
    #[test]
    fn a_tracestate_that_is_not_valid_is_left_out() {
        let trace: TraceContext = HEADER.parse().unwrap();
        let state = |state: &str| trace.clone().with_state(state).state().map(str::to_owned);
        for valid in ["congo=t61rcWkgMzE", "rojo=1, congo=2", "a=1,,b=2"] {
            assert_eq!(state(valid).as_deref(), Some(valid));
        }
        let (many, long) = (vec!["a=1"; 33].join(","), format!("a={}", "x".repeat(511)));
        for invalid in ["", "a", "a=", "=1", "a=\u{e9}", "a=1\n", &*many, &*long] {
            assert_eq!(state(invalid), None, "{invalid:?}");
        }
    }

    #[test]
    fn headers_without_a_valid_parent_have_no_trace() {
        let of = |parent: &'static str| {
            TraceContext::from_headers(move |name| match name {
                TRACEPARENT => Some(parent),
                _ => Some("congo=1"),
            })
        };
        assert_eq!(of(HEADER).unwrap().state(), Some("congo=1"));
        assert_eq!(of("nonsense"), None);
    }

    #[tokio::test]
    async fn a_trace_is_current_within_its_scope() {
        let trace: TraceContext = HEADER.parse().unwrap();
        assert_eq!(TraceContext::current(), None);
        let inner = trace.clone().scope(async { TraceContext::current() });
        assert_eq!(inner.await, Some(trace));
        assert_eq!(TraceContext::current(), None);
    }
}
