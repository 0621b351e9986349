//! The future of a response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use pin_project_lite::pin_project;

use crate::body::ResponseBody;

type Answer<B, E> = Result<Response<ResponseBody<B>>, E>;

pin_project! {
    /// The response to a request.
    pub struct ResponseFuture<F, B, E> {
        #[pin]
        kind: Kind<F, B, E>,
    }
}

pin_project! {
    #[project = Projected]
    enum Kind<F, B, E> {
        /// Not handled by the layer.
        Passed { #[pin] future: F },
        /// A request with a key.
        Keyed { future: Pin<Box<dyn Future<Output = Answer<B, E>> + Send>> },
        /// A request that is refused.
        Refused { response: Option<Response<ResponseBody<B>>> },
    }
}

impl<F, B, E> ResponseFuture<F, B, E> {
    pub(crate) fn passed(future: F) -> Self {
        Self { kind: Kind::Passed { future } }
    }

    pub(crate) fn keyed(future: impl Future<Output = Answer<B, E>> + Send + 'static) -> Self {
        Self { kind: Kind::Keyed { future: Box::pin(future) } }
    }

    pub(crate) fn refused(response: Response<ResponseBody<B>>) -> Self {
        Self { kind: Kind::Refused { response: Some(response) } }
    }
}

impl<F, B, E> Future for ResponseFuture<F, B, E>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Answer<B, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            Projected::Passed { future } => {
                let response = ready!(future.poll(context))?;
                Poll::Ready(Ok(response.map(ResponseBody::passed)))
            }
            Projected::Keyed { future } => future.as_mut().poll(context),
            Projected::Refused { response } => {
                Poll::Ready(Ok(response.take().expect("a future is not polled after its end")))
            }
        }
    }
}

impl<F, B, E> fmt::Debug for ResponseFuture<F, B, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Passed { .. } => "ResponseFuture::Passed",
            Kind::Keyed { .. } => "ResponseFuture::Keyed",
            Kind::Refused { .. } => "ResponseFuture::Refused",
        })
    }
}
