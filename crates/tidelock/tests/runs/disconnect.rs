//! A process whose calls to the store hang until it is reconnected, as if it had been stopped.

use std::future::Future;
use std::sync::Arc;

use tidelock::prelude::*;
use tidelock::store::{Result, StoreOperation};
use tidelock_test_stage::{Interceptor, TestStore, Wrapped};
use tokio::sync::watch;

/// Disconnects and reconnects a process.
#[derive(Debug)]
pub(crate) struct Cut {
    off: watch::Sender<bool>,
}

impl Cut {
    pub(crate) fn cut(&self) {
        self.off.send_replace(true);
    }

    pub(crate) fn reconnect(&self) {
        self.off.send_replace(false);
    }
}

impl Interceptor for Cut {
    async fn call<T: Send>(
        &self,
        _: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let mut off = self.off.subscribe();
        drop(off.wait_for(|off| !off).await);
        call.await
    }
}

/// A handle that can be disconnected.
pub(crate) async fn mortal(stage: &TestStore) -> (Tidelock, Arc<Wrapped<Cut>>) {
    let store = Wrapped::new(stage.store().await, Cut { off: watch::channel(false).0 });
    (Tidelock::over(store.clone()), store)
}
