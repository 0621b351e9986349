//! A caller that is stopped, like a suspended process.

use std::sync::Arc;

use tidelock::prelude::*;
use tidelock::store::{Result, StoreOperation};
use tokio::sync::watch;

use crate::interceptor::{Interceptor, Wrapped};

/// Passes every call on, until it is stopped; then calls wait.
#[derive(Debug)]
pub struct Pause(watch::Sender<bool>);

impl Pause {
    /// A pause in front of this handle's store, not stopped yet.
    pub fn over(tidelock: &Tidelock) -> Arc<Wrapped<Self>> {
        Wrapped::new(tidelock.store().clone(), Self(watch::channel(true).0))
    }

    /// Stops the caller: its calls wait from now on.
    pub fn stop(&self) {
        self.0.send_replace(false);
    }

    /// Continues the waiting calls.
    pub fn go_on(&self) {
        self.0.send_replace(true);
    }
}

impl Interceptor for Pause {
    async fn call<T: Send>(
        &self,
        _: StoreOperation,
        call: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        let mut open = self.0.subscribe();
        open.wait_for(|open| *open).await.expect("the gate outlives its calls");
        call.await
    }
}
