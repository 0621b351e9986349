//! The runs of a store, for whoever starts them, waits for them, or looks after them.
//!
//! Nothing here drives a run: a worker does, in whichever process has registered its workflow. What
//! is done here is a commit that a worker then finds; so two callers, or a caller and a worker, can
//! never drive a run twice.

pub(crate) mod commit_target;
mod error;
mod handle;
pub(crate) mod listing;
mod look;
pub(crate) mod proposal;
mod resolve;
mod result;
mod resume;
mod retry;
pub(crate) mod signal;
pub(crate) mod start;
mod status;
mod terminate;
mod timeline;

use serde::Serialize;

use super::{RunId, Schedules};
use crate::handle::Tidelock;
use commit_target::CommitTarget;
use start::StartRequest;

pub use error::RunError;
pub use handle::RunHandle;
pub use listing::{RunCursor, RunFilter, RunPage};
pub use look::RunInfo;
pub use result::RunResult;
pub use signal::SendSignal;
pub use start::{StartOutcome, StartRun};
pub use status::{PendingWait, RunStatus};
pub use timeline::{HistoryEntry, Timeline};

/// The runs of a store, whoever drives them.
#[derive(Debug, Clone)]
pub struct Runs {
    tidelock: Tidelock,
}

impl Runs {
    pub(crate) fn new(tidelock: Tidelock) -> Self {
        Self { tidelock }
    }

    /// Starts a run of a workflow under an id of your choice: see [`StartRun`].
    pub fn start(&self, workflow: &str, run: &str, input: &(impl Serialize + ?Sized)) -> StartRun {
        StartRun::new(
            CommitTarget::Store(self.tidelock.clone()),
            StartRequest::new(workflow, run, input),
        )
    }

    /// The run with this id, whether it exists or not.
    pub fn run(&self, id: &str) -> RunHandle {
        RunHandle::new(self.tidelock.clone(), RunId::new(id))
    }

    /// A page of the runs that pass, newest first.
    ///
    /// # Errors
    /// What the store says.
    pub async fn list(&self, filter: &RunFilter) -> Result<RunPage, RunError> {
        Ok(listing::list(&**self.tidelock.store(), filter).await?)
    }

    /// The schedules by which runs are started.
    pub fn schedules(&self) -> Schedules {
        Schedules::new(self.tidelock.clone())
    }
}
