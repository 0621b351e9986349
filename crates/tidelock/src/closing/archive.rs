//! The archive: where removed events go.

use std::convert::Infallible;
use std::error::Error;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::StoredEvent;

/// Receives events before they are removed.
///
/// Implemented for any async function that takes a list of stored events and can fail.
///
/// Events are removed from the store after it returned: it should return only when its own storage
/// is durable. After a crash the same page can come again; event ids identify duplicates.
pub trait Archive: Send + Sync {
    /// Takes the next events of one stream, in order.
    ///
    /// # Errors
    /// An error interrupts the closing; the next call repeats the page.
    fn take(&self, events: Vec<StoredEvent>) -> BoxFuture<'static, Result<(), ArchiveFailure>>;
}

/// Error of an archive.
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

/// An archive that keeps nothing: the events are lost.
///
/// # Errors
/// Never.
pub async fn discard(_: Vec<StoredEvent>) -> Result<(), Infallible> {
    Ok(())
}
