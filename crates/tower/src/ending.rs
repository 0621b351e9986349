//! The end of a response that is passed on as it comes: its key is settled before the client sees
//! that end.
//!
//! Until then the key is held, and renewed. A stream that comes to its end spends the key; one that
//! breaks off is a failure of the handler. A client that goes away in the middle had the response
//! as far as it wanted it.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};

use crate::claimed::HeldKey;
use crate::settling;

/// What is left to be done at the end of a stream.
pub(crate) struct Ending {
    right: Option<(Arc<HeldKey>, StatusCode)>,
    settling: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    last: Option<Last>,
}

/// What the client sees once the key is settled.
enum Last {
    /// The last piece.
    Piece(Frame<Bytes>),
    /// That the stream broke off, with the error of its body.
    Broken(Box<dyn Any + Send>),
    /// Its end.
    End,
}

impl Ending {
    pub(crate) fn new(right: Arc<HeldKey>, status: StatusCode) -> Self {
        Self { right: Some((right, status)), settling: None, last: None }
    }

    /// The next piece of this body; the last one, or what comes instead of it, after the key is
    /// settled.
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
                return Poll::Ready(self.last.take().and_then(Last::seen));
            }
            if self.right.is_none() {
                return Poll::Ready(None);
            }
            match ready!(body.as_mut().poll_frame(context)) {
                Some(Ok(piece)) if body.is_end_stream() => self.settle(Last::Piece(piece)),
                Some(Ok(piece)) => return Poll::Ready(Some(Ok(piece))),
                Some(Err(error)) => self.settle(Last::Broken(Box::new(error))),
                None => self.settle(Last::End),
            }
        }
    }

    /// Whether the client has seen the end.
    pub(crate) fn is_over(&self) -> bool {
        self.right.is_none() && self.settling.is_none()
    }

    pub(crate) fn size_hint(&self, body: &impl Body) -> SizeHint {
        match &self.last {
            Some(Last::Piece(piece)) => {
                SizeHint::with_exact(piece.data_ref().map_or(0, |data| data.len() as u64))
            }
            _ => body.size_hint(),
        }
    }

    fn settle(&mut self, last: Last) {
        let Some((right, status)) = self.right.take() else { return };
        self.settling = Some(match last {
            Last::Broken(_) => Box::pin(settling::fail(right)),
            Last::Piece(_) | Last::End => Box::pin(settling::spend(right, status)),
        });
        self.last = Some(last);
    }
}

impl Last {
    fn seen<E: 'static>(self) -> Option<Result<Frame<Bytes>, E>> {
        match self {
            Self::Piece(piece) => Some(Ok(piece)),
            Self::Broken(error) => error.downcast().ok().map(|error| Err(*error)),
            Self::End => None,
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if let Some((right, status)) = self.right.take() {
            runtime.spawn(settling::spend(right, status));
        }
        if let Some(settling) = self.settling.take() {
            runtime.spawn(settling);
        }
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ending").field("is_over", &self.is_over()).finish_non_exhaustive()
    }
}
