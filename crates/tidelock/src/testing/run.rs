//! One run, to assert on.

use serde::Serialize;
use tidelock_store::RawJson;

use super::compare::{assert_same, names};
use super::finish;
use crate::handle::Tidelock;
use crate::runs::{PendingWait, RunExport, RunHandle, RunOutcome, RunStatus};

/// One run. Every call reads what it is at that moment.
#[derive(Debug, Clone)]
pub struct TestRun {
    id: String,
    run: RunHandle,
}

impl TestRun {
    pub(super) fn of(tidelock: &Tidelock, id: &str) -> Self {
        Self { id: id.to_owned(), run: tidelock.runs().run(id) }
    }

    /// Returns its status.
    ///
    /// # Panics
    /// If there is no such run.
    #[track_caller]
    pub fn status(&self) -> RunStatus {
        self.read(finish(self.run.status()))
    }

    /// Returns its history, as `tidelock runs ID --export FILE` writes it, for [`replay`].
    ///
    /// # Panics
    /// If there is no such run.
    ///
    /// [`replay`]: super::replay()
    #[track_caller]
    pub fn export(&self) -> RunExport {
        self.read(finish(self.run.export()))
    }

    /// Returns the names of the steps that were done, in the order of their ends.
    ///
    /// # Panics
    /// If there is no such run.
    #[track_caller]
    pub fn steps(&self) -> Vec<String> {
        let done = |kind: &str| kind == "step";
        let export = self.export();
        names(export.names(done))
    }

    /// Asserts that exactly these steps were done, in this order.
    ///
    /// # Panics
    /// If others were.
    #[track_caller]
    pub fn assert_steps<'a>(&self, expected: impl IntoIterator<Item = &'a str>) -> &Self {
        assert_same(&format!("steps of run {:?}", self.id), &names(expected), &self.steps());
        self
    }

    /// Asserts that it has completed with this result.
    ///
    /// # Panics
    /// If it has not, or with another result.
    #[track_caller]
    pub fn assert_completed(&self, expected: &(impl Serialize + ?Sized)) -> &Self {
        let expected = RawJson::new(expected).expect("the expected result is JSON");
        match self.status() {
            RunStatus::Ended(RunOutcome::Completed(result)) => assert!(
                result.same_value(&expected),
                "run {:?} completed with {}, expected {}",
                self.id,
                result.as_str(),
                expected.as_str()
            ),
            other => panic!("run {:?} has not completed: {}", self.id, told(&other)),
        }
        self
    }

    /// Asserts that it has failed, with an error that contains this text.
    ///
    /// # Panics
    /// If it has not, or with another error.
    #[track_caller]
    pub fn assert_failed(&self, expected: &str) -> &Self {
        match self.status() {
            RunStatus::Ended(RunOutcome::Failed(failure)) => assert!(
                failure.error.contains(expected),
                "run {:?} failed with {:?}, expected {expected:?}",
                self.id,
                failure.error
            ),
            other => panic!("run {:?} has not failed: {}", self.id, told(&other)),
        }
        self
    }

    /// Asserts that it waits for this signal.
    ///
    /// # Panics
    /// If it does not.
    #[track_caller]
    pub fn assert_waits_for(&self, expected: &str) -> &Self {
        let status = self.status();
        let waits = match &status {
            RunStatus::Waiting { on, .. } => on.iter().any(
                |wait| matches!(wait, PendingWait::Signal { signal, .. } if signal == expected),
            ),
            _ => false,
        };
        assert!(
            waits,
            "run {:?} does not wait for signal {expected:?}: {}",
            self.id,
            told(&status)
        );
        self
    }

    #[track_caller]
    fn read<T>(&self, read: Result<T, crate::runs::RunError>) -> T {
        read.unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The status in an error; an end with its content.
fn told(status: &RunStatus) -> String {
    match status {
        RunStatus::Ended(outcome) => format!("it ended as {outcome:?}"),
        other => other.to_string(),
    }
}
