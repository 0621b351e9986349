//! Processes that get no time: nothing that they ask of their store gets through until they go on.

use std::future::Future;
use std::sync::Arc;

use tidelock::prelude::*;
use tidelock::{Operation, Result};
use tidelock_test_stage::{Between, Wrapped};
use tokio::sync::watch;

/// Lets every call through, until it is stopped; then they wait.
#[derive(Debug)]
pub(crate) struct Stoppable(watch::Sender<bool>);

impl Stoppable {
    pub(crate) fn over(tidelock: &Tidelock) -> Arc<Wrapped<Self>> {
        Wrapped::new(tidelock.store().clone(), Self(watch::channel(true).0))
    }

    pub(crate) fn stop(&self) {
        self.0.send_replace(false);
    }

    pub(crate) fn go_on(&self) {
        self.0.send_replace(true);
    }
}

impl Between for Stoppable {
    async fn call<T: Send>(&self, _: Operation, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let mut going = self.0.subscribe();
        going.wait_for(|going| *going).await.expect("it outlives its calls");
        call.await
    }
}
