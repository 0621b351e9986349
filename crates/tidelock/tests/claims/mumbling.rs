//! Callers that are stopped in the middle, as a process is that gets no time, and callers that do not hear an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidelock::prelude::*;
use tidelock::{Advice, ErrorKind, Operation, Result, StoreError};
use tidelock_test_stage::{Between, Wrapped};
use tokio::sync::watch;

/// Lets every call through, until it is stopped; then they wait.
#[derive(Debug)]
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(crate) fn over(tidelock: &Tidelock) -> Arc<Wrapped<Self>> {
        Wrapped::new(tidelock.store().clone(), Self(watch::channel(true).0))
    }

    /// From now on nothing that the caller asks of its store gets through.
    pub(crate) fn stop(&self) {
        self.0.send_replace(false);
    }

    /// What waits goes on.
    pub(crate) fn go_on(&self) {
        self.0.send_replace(true);
    }
}

impl Between for Gate {
    async fn call<T: Send>(&self, _: Operation, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let mut open = self.0.subscribe();
        open.wait_for(|open| *open).await.expect("the gate outlives its calls");
        call.await
    }
}

/// Every other commit happens, and nobody hears of it.
#[derive(Debug, Default)]
pub(crate) struct Mumbling(AtomicBool);

impl Mumbling {
    pub(crate) fn over(tidelock: &Tidelock) -> Tidelock {
        Tidelock::over(Wrapped::new(tidelock.store().clone(), Self::default()))
    }
}

impl Between for Mumbling {
    async fn call<T: Send>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let answer = call.await;
        if operation != Operation::Commit || self.0.fetch_xor(true, Ordering::SeqCst) {
            return answer;
        }
        Err(StoreError::new(ErrorKind::Unavailable, Advice::Unknown, operation, "the answer was lost"))
    }
}
