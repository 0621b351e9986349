//! Settles the key of a streamed response at its end, before the client sees that end.
//!
//! Until then the key is held, and renewed. A stream that ends uses up the key; one that fails is a
//! failure of the handler. A client that disconnects in the middle has had its response.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};

use crate::idempotency_key::HeldKey;
use crate::settlement;

/// The pending settlement at the end of a stream.
pub(crate) struct StreamEnd {
    held: Option<(Arc<HeldKey>, StatusCode)>,
    settling: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    last: Option<FinalFrame>,
}

/// What the client sees once the key is settled.
enum FinalFrame {
    /// The last frame.
    Piece(Frame<Bytes>),
    /// The error of the body.
    Broken(Box<dyn Any + Send>),
    /// The end.
    End,
}

impl StreamEnd {
    pub(crate) fn new(held: Arc<HeldKey>, status: StatusCode) -> Self {
        Self { held: Some((held, status)), settling: None, last: None }
    }

    /// The next frame of this body; the last one, or the end or error in its place, after the key
    /// is settled.
    pub(crate) fn poll_frame<B>(
        &mut self,
        mut body: Pin<&mut B>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>>
    where
        B: Body<Data = Bytes>,
        B::Error: Send + 'static,
    {
        loop {
            if let Some(settling) = &mut self.settling {
                ready!(settling.as_mut().poll(context));
                self.settling = None;
                return Poll::Ready(self.last.take().and_then(FinalFrame::seen));
            }
            if self.held.is_none() {
                return Poll::Ready(None);
            }
            match ready!(body.as_mut().poll_frame(context)) {
                Some(Ok(piece)) if body.is_end_stream() => self.settle(FinalFrame::Piece(piece)),
                Some(Ok(piece)) => return Poll::Ready(Some(Ok(piece))),
                Some(Err(error)) => self.settle(FinalFrame::Broken(Box::new(error))),
                None => self.settle(FinalFrame::End),
            }
        }
    }

    /// Whether the client has seen the end.
    pub(crate) fn is_over(&self) -> bool {
        self.held.is_none() && self.settling.is_none()
    }

    pub(crate) fn size_hint(&self, body: &impl Body) -> SizeHint {
        match &self.last {
            Some(FinalFrame::Piece(piece)) => {
                SizeHint::with_exact(piece.data_ref().map_or(0, |data| data.len() as u64))
            }
            _ => body.size_hint(),
        }
    }

    fn settle(&mut self, last: FinalFrame) {
        let Some((held, status)) = self.held.take() else { return };
        self.settling = Some(match last {
            FinalFrame::Broken(_) => Box::pin(settlement::fail(held)),
            FinalFrame::Piece(_) | FinalFrame::End => Box::pin(settlement::spend(held, status)),
        });
        self.last = Some(last);
    }
}

impl FinalFrame {
    fn seen<E: 'static>(self) -> Option<Result<Frame<Bytes>, E>> {
        match self {
            Self::Piece(piece) => Some(Ok(piece)),
            Self::Broken(error) => error.downcast().ok().map(|error| Err(*error)),
            Self::End => None,
        }
    }
}

impl Drop for StreamEnd {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if let Some((held, status)) = self.held.take() {
            runtime.spawn(settlement::spend(held, status));
        }
        if let Some(settling) = self.settling.take() {
            runtime.spawn(settling);
        }
    }
}

impl fmt::Debug for StreamEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamEnd").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}
