//! Where the events go that leave a stream.

use std::convert::Infallible;
use std::error::Error;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::StoredEvent;

/// Takes events before they go. Any async function of a list of stored events that can fail is one.
///
/// What it has answered for is gone from the store afterwards: it should answer when its own
/// storage is safe. The same page can come a second time, after a crash; event ids tell.
pub trait Archive: Send + Sync {
    /// Takes these events of one stream, which follow the last ones that it took.
    fn take(&self, events: Vec<StoredEvent>) -> BoxFuture<'static, Result<(), ArchiveFailure>>;
}

/// What an archive fails with.
pub(crate) type ArchiveFailure = Box<dyn Error + Send + Sync>;

impl<F, T, X> Archive for F
where
    F: Fn(Vec<StoredEvent>) -> T + Send + Sync,
    T: Future<Output = Result<(), X>> + Send + 'static,
    X: Into<ArchiveFailure> + 'static,
{
    fn take(&self, events: Vec<StoredEvent>) -> BoxFuture<'static, Result<(), ArchiveFailure>> {
        let taking = self(events);
        async move { taking.await.map_err(Into::into) }.boxed()
    }
}

/// The archive of those who want none: the events are lost.
///
/// # Errors
/// Never.
pub async fn discard(_: Vec<StoredEvent>) -> Result<(), Infallible> {
    Ok(())
}
