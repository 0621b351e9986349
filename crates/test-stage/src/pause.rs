//! A caller that is stopped in the middle, as a process is that gets no time.

use std::sync::Arc;

use tidelock::StoreOperation;
use tidelock::prelude::*;
use tidelock::store::Result;
use tokio::sync::watch;

use crate::interceptor::{Interceptor, Wrapped};

/// Lets every call through, until it is stopped; then they wait.
#[derive(Debug)]
pub struct Pause(watch::Sender<bool>);

impl Pause {
    /// An open gate in front of this one's store.
    pub fn over(tidelock: &Tidelock) -> Arc<Wrapped<Self>> {
        Wrapped::new(tidelock.store().clone(), Self(watch::channel(true).0))
    }

    /// From now on nothing that the caller asks of its store gets through.
    pub fn stop(&self) {
        self.0.send_replace(false);
    }

    /// What waits goes on.
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
