//! What a transactional step does to other runs: it lands with the step's record, like everything
//! else that it stages.

use serde::Serialize;

use super::Tx;
use crate::runs::client::commit_target::CommitTarget;
use crate::runs::client::signal::SignalRequest;
use crate::runs::client::start::StartRequest;
use crate::runs::{RunError, RunId, SendSignal, StartRun};

impl Tx {
    /// Stages the start of a run that this one does not wait for: see [`StartRun`].
    pub fn start(&self, workflow: &str, run: &str, input: &(impl Serialize + ?Sized)) -> StartRun {
        StartRun::new(self.destination(), StartRequest::new(workflow, run, input))
            .metadata(self.metadata().clone())
    }

    /// Stages a signal to another run: see [`SendSignal`]. Several signals of one name to one run
    /// need [ids](SendSignal::id) of their own.
    pub fn signal(&self, run: &str, name: &str, payload: &(impl Serialize + ?Sized)) -> SendSignal {
        let letter = RunId::new(run)
            .map_err(RunError::from)
            .and_then(|run| SignalRequest::new(run, name, payload));
        let signal =
            SendSignal::new(self.destination(), letter.map(|letter| letter.about(self.metadata())));
        signal.id(format!("{}:{name}", self.key()))
    }

    fn destination(&self) -> CommitTarget {
        let tx = self.clone();
        let stage = Box::new(move |decision| tx.staged().decisions.push(decision));
        CommitTarget::Commit(self.tidelock().clone(), stage)
    }
}
