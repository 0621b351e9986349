//! A request body with a deadline.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::BoxError;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Sleep, sleep};

use super::connections::ConnectionSlot;

/// A body as its client sends it.
pub(super) struct TimedBody<B> {
    body: B,
    limit: Duration,
    /// Set at the first poll.
    end: Option<Pin<Box<Sleep>>>,
    slot: Arc<ConnectionSlot>,
}

/// The client took too long.
#[derive(Debug)]
pub(crate) struct BodyTimeout(pub(crate) Duration);

impl<B> TimedBody<B> {
    pub(super) fn new(body: B, limit: Duration, slot: Arc<ConnectionSlot>) -> Self {
        Self { body, limit, end: None, slot }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for TimedBody<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.slot.set_active();
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        self.slot.set_idle();
        let limit = self.limit;
        ready!(self.end.get_or_insert_with(|| Box::pin(sleep(limit))).as_mut().poll(cx));
        self.slot.set_active();
        Poll::Ready(Some(Err(BodyTimeout(limit).into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Display for BodyTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body of the request did not come within {:?}", self.0)
    }
}

impl std::error::Error for BodyTimeout {}

/// The body of a response; when it is sent, the connection is idle.
pub(super) fn answered(body: axum::body::Body, slot: Arc<ConnectionSlot>) -> axum::body::Body {
    let end = IdleOnDrop(slot);
    axum::body::Body::new(body.map_frame(move |frame| {
        let _until_then = &end;
        frame
    }))
}

struct IdleOnDrop(Arc<ConnectionSlot>);

impl Drop for IdleOnDrop {
    fn drop(&mut self) {
        self.0.set_idle();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::StreamBody;
    use tokio::time::Instant;

    use super::*;
    use crate::serve::connections::Connections;

    /// HTTP-38. A client that sends a byte now and then does not get more time.
    #[tokio::test(start_paused = true)]
    async fn a_slow_body_times_out() {
        let drops = futures_util::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Some((Ok::<_, BoxError>(Frame::data(Bytes::from_static(b" "))), ()))
        });
        let (guard, begun) = (Arc::new(Connections::default()).admit(1), Instant::now());
        let body = StreamBody::new(Box::pin(drops));
        let mut body = TimedBody::new(body, Duration::from_millis(10_500), guard.slot.clone());
        let mut came = 0;
        let ended = loop {
            match body.frame().await.expect("it never ends") {
                Ok(_) => came += 1,
                Err(error) => break error,
            }
        };
        assert!(ended.is::<BodyTimeout>() && came == 10, "{ended} after {came}");
        assert_eq!(begun.elapsed(), Duration::from_millis(10_500));
    }
}
