//! The body of a response: the handler's own, streamed, or complete bytes.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::Full;
use pin_project_lite::pin_project;

use crate::stream_end::StreamEnd;

pin_project! {
    /// The body of a response that has passed the layer.
    #[derive(Debug)]
    pub struct ResponseBody<B> {
        #[pin]
        kind: Kind<B>,
    }
}

pin_project! {
    #[project = Projected]
    #[derive(Debug)]
    enum Kind<B> {
        /// Passed through.
        Passed { #[pin] body: B },
        /// Passed through, and its key is settled at its end.
        Streamed { #[pin] body: B, ending: StreamEnd },
        /// Complete bytes.
        Whole { #[pin] body: Full<Bytes> },
    }
}

impl<B> ResponseBody<B> {
    pub(crate) fn passed(body: B) -> Self {
        Self { kind: Kind::Passed { body } }
    }

    pub(crate) fn streamed(body: B, ending: StreamEnd) -> Self {
        Self { kind: Kind::Streamed { body, ending } }
    }

    pub(crate) fn whole(bytes: Bytes) -> Self {
        Self { kind: Kind::Whole { body: Full::new(bytes) } }
    }
}

impl<B: Body<Data = Bytes>> Body for ResponseBody<B>
where
    B::Error: Send + 'static,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().kind.project() {
            Projected::Passed { body } => body.poll_frame(context),
            Projected::Streamed { body, ending } => ending.poll_frame(body, context),
            Projected::Whole { body } => body.poll_frame(context).map_err(|never| match never {}),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Passed { body } => body.is_end_stream(),
            Kind::Streamed { ending, .. } => ending.is_over(),
            Kind::Whole { body } => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Passed { body } => body.size_hint(),
            Kind::Streamed { body, ending } => ending.size_hint(body),
            Kind::Whole { body } => body.size_hint(),
        }
    }
}
