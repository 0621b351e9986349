//! An application that drives the runs of one workflow, in the background.

use tidelock::AppBuilder;
use tidelock::worker::Stopped;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

pub(crate) struct Driven {
    stop: CancellationToken,
    app: JoinHandle<tidelock::store::Result<Stopped>>,
}

impl Driven {
    pub(crate) fn start(app: AppBuilder) -> Result<Self, Failure> {
        let app = app.build().map_err(wrong)?;
        let stop = CancellationToken::new();
        Ok(Self { app: tokio::spawn(app.run_until(stop.clone().cancelled_owned())), stop })
    }

    /// Returns when nothing is left to settle.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        self.stop.cancel();
        self.app.await.map_err(wrong)??;
        Ok(())
    }
}

/// Converts any other error of a run or an application.
#[allow(clippy::needless_pass_by_value)] // as `map_err` has it
pub(super) fn wrong(error: impl std::fmt::Display) -> Failure {
    Failure::Answer(error.to_string())
}
