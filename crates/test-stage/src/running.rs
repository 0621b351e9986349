//! Applications in the background.

use std::time::Duration;

use tidelock::AppBuilder;
use tidelock::store::WorkerName;
use tidelock::worker::{PollInterval, Stopped, WorkerOptions};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::PATIENCE;

/// Worker options with fast polling, so that a test in real time does not wait for a lost hint, and
/// with this name.
pub fn brisk(name: &str) -> WorkerOptions {
    let pace = PollInterval { least: Duration::from_millis(50), per_queue: Duration::ZERO };
    let mut options = WorkerOptions::new(WorkerName::new(name).unwrap());
    (options.pace, options.grace, options.patience) = (pace, Duration::from_millis(50), PATIENCE);
    options
}

/// An application in the background, stopped when it is dropped.
#[derive(Debug)]
pub struct Running {
    stop: CancellationToken,
    ended: Option<JoinHandle<Stopped>>,
}

impl Running {
    /// Builds and runs it.
    pub fn start(app: AppBuilder) -> Self {
        let app = app.build().unwrap();
        let stop = CancellationToken::new();
        let shutdown = stop.clone().cancelled_owned();
        let ended = tokio::spawn(async move { app.run_until(shutdown).await.unwrap() });
        Self { stop, ended: Some(ended) }
    }

    /// Begins the shutdown.
    pub fn tell(&self) {
        self.stop.cancel();
    }

    /// Waits for the end.
    pub async fn stop(mut self) -> Stopped {
        self.tell();
        let ended = self.ended.take().unwrap();
        tokio::time::timeout(PATIENCE, ended).await.expect("the application ends").unwrap()
    }

    /// Drops it without waiting for its end: for an application that is cut off from its store, and
    /// never ends.
    pub fn abandon(mut self) {
        if let Some(ended) = self.ended.take() {
            ended.abort();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
