//! That a connection could not be made, for all who waited for it.
//!
//! If each of a crowd tried in turn, the last would wait for as many timeouts as there are others.
//! What fails while somebody waits has failed for him as well; whoever comes later tries again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidelock_store::StoreError;

/// What failed so far.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    count: u64,
    last: Option<StoreError>,
}

/// The moment at which somebody began to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Came(u64);

impl Failures {
    pub(crate) fn come(&self) -> Came {
        Came(self.lock().count)
    }

    /// Why it failed, if it did since then.
    pub(crate) fn since(&self, came: Came) -> Option<StoreError> {
        let known = self.lock();
        known.last.clone().filter(|_| known.count > came.0)
    }

    pub(crate) fn note(&self, error: &StoreError) {
        let mut known = self.lock();
        known.count += 1;
        known.last = Some(error.clone());
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use futures_util::future::join_all;
    use tidelock_store::{Result, RetryAdvice};

    use crate::address::Address;
    use crate::connector::Connector;
    use crate::lazy_connection::LazyConnection;
    use crate::open::PostgresOptions;
    use crate::pool::Pool;

    /// A server that ends every connection at once, and counts them.
    fn refusing() -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, visitors) =
            (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let count = visitors.clone();
        thread::spawn(move || {
            for visitor in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                drop(visitor);
            }
        });
        (port, visitors)
    }

    fn place(port: u16) -> Arc<Connector> {
        let mut options = PostgresOptions::default();
        let address =
            Address::parse(&format!("postgres://u@127.0.0.1:{port}/d"), &mut options).unwrap();
        Arc::new(Connector::new(address, &options))
    }

    fn all_failed<T>(crowd: &[Result<T>]) -> bool {
        crowd.iter().all(|failed| failed.as_ref().is_err_and(|e| e.advice() == RetryAdvice::Later))
    }

    #[tokio::test]
    async fn a_crowd_that_waits_for_a_connection_fails_together_and_the_next_one_tries_again() {
        let (port, visitors) = refusing();
        let link = LazyConnection::new(place(port));
        assert!(all_failed(&join_all((0..50).map(|_| link.session())).await));
        assert_eq!(visitors.load(Ordering::SeqCst), 1);
        link.session().await.unwrap_err();
        assert_eq!(visitors.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_crowd_that_waits_for_one_of_a_few_connections_fails_with_those_who_tried() {
        let (port, visitors) = refusing();
        let pool = Pool::new(place(port), 2);
        assert!(all_failed(&join_all((0..50).map(|_| pool.borrow())).await));
        assert_eq!(visitors.load(Ordering::SeqCst), 2);
        pool.borrow().await.unwrap_err();
        assert_eq!(visitors.load(Ordering::SeqCst), 3);
    }
}
