//! Shared connection failures: one failed attempt answers every waiter.
//!
//! If each of many waiters tried in turn, the last would wait for as many timeouts as there are
//! others. An attempt that fails during a wait counts for that waiter too; a later caller tries
//! again.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidelock_store::StoreError;

/// The failures so far.
#[derive(Debug, Default)]
pub(crate) struct ConnectFailures {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    count: u64,
    last: Option<StoreError>,
}

/// The moment at which a wait began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitStart(u64);

impl ConnectFailures {
    pub(crate) fn start_wait(&self) -> WaitStart {
        WaitStart(self.lock().count)
    }

    /// The last failure since then, if there is one.
    pub(crate) fn since(&self, wait_start: WaitStart) -> Option<StoreError> {
        let known = self.lock();
        known.last.clone().filter(|_| known.count > wait_start.0)
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

    use crate::connect::address::Address;
    use crate::connect::connector::Connector;
    use crate::connect::lazy_connection::LazyConnection;
    use crate::connect::pool::Pool;
    use crate::open::PostgresOptions;

    /// A server that closes every connection immediately, and counts them.
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

    fn connector(port: u16) -> Arc<Connector> {
        let mut options = PostgresOptions::default();
        let address =
            Address::parse(&format!("postgres://u@127.0.0.1:{port}/d"), &mut options).unwrap();
        Arc::new(Connector::new(address, &options))
    }

    fn all_failed<T>(results: &[Result<T>]) -> bool {
        results
            .iter()
            .all(|failed| failed.as_ref().is_err_and(|e| e.advice() == RetryAdvice::Later))
    }

    #[tokio::test]
    async fn concurrent_waiters_for_a_connection_fail_together_and_the_next_one_tries_again() {
        let (port, visitors) = refusing();
        let connection = LazyConnection::new(connector(port));
        assert!(all_failed(&join_all((0..50).map(|_| connection.session())).await));
        assert_eq!(visitors.load(Ordering::SeqCst), 1);
        connection.session().await.unwrap_err();
        assert_eq!(visitors.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn concurrent_waiters_for_a_pooled_connection_fail_with_the_attempt() {
        let (port, visitors) = refusing();
        let pool = Pool::new(connector(port), 2);
        assert!(all_failed(&join_all((0..50).map(|_| pool.borrow())).await));
        assert_eq!(visitors.load(Ordering::SeqCst), 2);
        pool.borrow().await.unwrap_err();
        assert_eq!(visitors.load(Ordering::SeqCst), 3);
    }
}
