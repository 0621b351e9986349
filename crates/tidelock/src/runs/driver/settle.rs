//! The ends of a turn, each in one commit: suspended, released, parked, continued as new, or ended.

use std::time::Duration;

use tidelock_store::{
    Append, Commit, Committed, ExpectedVersion, Mark, NewEvent, RawJson, Result, Settlement,
    Timestamp, Wake, When, limits,
};

use super::Driver;
use super::body::Returned;
use crate::backoff::Backoff;
use crate::handler_error::code_of;
use crate::runs::definition::BodyError;
use crate::runs::error::StepError;
use crate::runs::history::{Cancelled, Completed, Continued, Entry, Failed, RunFailure, cut};
use crate::runs::keys;
use crate::runs::replay::{Exit, FailureContext, Replay};
use crate::runs::summary::{RunState, Summary};
use crate::telemetry;
use crate::worker::{TaskOutcome, is_loss, panic_message};

/// The backoff of a parked run: longer each time, and never final.
fn park_backoff() -> Backoff {
    Backoff::exponential(Duration::from_secs(1), Duration::from_secs(600)).with_jitter(0.1)
}

/// The outcome of a commit that ends the turn.
enum Ended {
    Done(TaskOutcome),
    /// A signal came first: the function has to run again.
    Moved,
}

impl Driver {
    /// Suspends the run until this time, or until its item is woken. If a signal came meanwhile,
    /// the turn continues.
    pub(super) async fn suspend(
        &mut self,
        until: Option<Timestamp>,
    ) -> Result<Option<TaskOutcome>> {
        let mut commit = Commit::new().settle(self.ack());
        if let Some(until) = until {
            commit =
                commit.wake(Wake::at(self.activation.task.lease().item.clone(), When::At(until)));
        }
        self.end_turn(commit, TaskOutcome::Acked).await
    }

    /// Releases the run, so that another worker continues at once.
    pub(super) async fn release(&mut self) -> Result<Option<TaskOutcome>> {
        let settlement = Settlement::release(self.activation.task.token()).having_done(self.mark());
        self.end_turn(Commit::new().settle(settlement), TaskOutcome::Released).await
    }

    async fn end_turn(
        &mut self,
        commit: Commit,
        settled: TaskOutcome,
    ) -> Result<Option<TaskOutcome>> {
        if !self.activation.replay(Replay::make_room) {
            return Ok(None);
        }
        let entries = self.activation.replay(Replay::take_rest);
        match self.commit(commit, entries.clone(), settled).await? {
            Ended::Done(settled) => Ok(Some(settled)),
            Ended::Moved if self.is_ended_elsewhere() => self.acknowledge().await.map(Some),
            Ended::Moved => {
                self.activation.replay(|replay| replay.put_back(entries));
                Ok(None)
            }
        }
    }

    /// Commits with these entries appended at the known version.
    async fn commit(
        &mut self,
        commit: Commit,
        entries: Vec<NewEvent>,
        settled: TaskOutcome,
    ) -> Result<Ended> {
        let commit = match entries.is_empty() {
            true => commit,
            false => self.with_entries(commit, entries),
        };
        match self.activation.task.commit(commit).await?.committed() {
            Ok(Committed { .. }) => Ok(Ended::Done(settled)),
            Err(conflict) if is_loss(&conflict) => Ok(Ended::Done(TaskOutcome::Lost)),
            Err(_) => {
                self.catch_up().await?;
                Ok(Ended::Moved)
            }
        }
    }

    fn with_entries(&self, mut commit: Commit, entries: Vec<NewEvent>) -> Commit {
        let stream = keys::stream(self.run());
        let append = Append::new(&stream, ExpectedVersion::Exact(self.version), entries);
        commit.appends.insert(0, append);
        commit
    }

    fn ack(&self) -> Settlement {
        Settlement::ack(self.activation.task.token(), self.mark())
    }

    /// Finishes the item of an ended run. It is only needed again if the run is retried.
    fn finish_item(&self) -> Settlement {
        Settlement::finish(self.activation.task.token(), self.mark(), When::In(limits::ITEM_MEMORY))
    }

    /// The item's mark is the version of the history: a lease under which something was recorded
    /// made progress.
    fn mark(&self) -> Mark {
        Mark::from(self.version).max(self.activation.task.lease().mark)
    }

    /// Settles the item of a run that another process has ended.
    pub(super) async fn acknowledge(&self) -> Result<TaskOutcome> {
        self.activation.task.settle(self.finish_item()).await
    }

    pub(super) async fn leave(&mut self, exit: Exit) -> Result<TaskOutcome> {
        match exit {
            Exit::Park(error) => self.park(error).await,
            Exit::Fail(error) => self.fail(RunFailure::with_error(error)).await,
            Exit::Continue(input) => self.continue_as_new(input).await,
        }
    }

    /// Parks the run with the error on its item. It is retried, in case new code is deployed.
    async fn park(&self, error: String) -> Result<TaskOutcome> {
        let task = &self.activation.task;
        let after = park_backoff().after(task.lease().failures, fastrand::f64());
        tracing::warn!(run = %self.run(), error, "parked");
        telemetry::run_parked(&self.summarized().summary.workflow);
        task.settle(Settlement::retry(task.token(), after, error).having_done(self.mark())).await
    }

    /// The function has returned or panicked.
    pub(super) async fn finish(&mut self, returned: Returned) -> Result<TaskOutcome> {
        let returned = match returned {
            Ok(returned) => returned,
            Err(panic) => {
                let panicked = format!("the workflow panicked: {}", panic_message(&*panic));
                return self.park(panicked).await;
            }
        };
        if let Some(exit) = self.activation.replay(Replay::returned) {
            return self.leave(exit).await;
        }
        match returned {
            Ok(result) => self.end(Completed { result }.into(), RunState::Completed).await,
            Err(error) => self.fail_with(&error).await,
        }
    }

    /// An error caused by a cancellation ends the run as cancelled; every other error, as failed.
    async fn fail_with(&mut self, error: &BodyError) -> Result<TaskOutcome> {
        let found = StepError::find(&**error);
        let FailureContext { cancel, cancel_seen, compensated, last_failed } =
            self.activation.replay(|replay| replay.failure_context());
        let is_cancelled = found.map_or(cancel_seen, StepError::is_cancelled);
        match cancel.filter(|_| is_cancelled) {
            Some(cancel) if !cancel.out_of_time => {
                self.end(Cancelled { reason: cancel.reason }.into(), RunState::Cancelled).await
            }
            cancel => {
                let step = match found {
                    Some(error) => error.step().cloned(),
                    None => last_failed.filter(|_| cancel.is_none()),
                };
                let (code, timed_out) = (code_of(&**error).map(cut), cancel.is_some());
                let error = cut(&error.to_string());
                self.fail(RunFailure { error, code, step, compensated, timed_out }).await
            }
        }
    }

    async fn fail(&mut self, failure: RunFailure) -> Result<TaskOutcome> {
        self.end(Failed { failure }.into(), RunState::Failed).await
    }

    /// Ends the run: its last entry, summary, index entries, lease and its parent's wake-up, in one
    /// commit.
    async fn end(&mut self, last: Entry, state: RunState) -> Result<TaskOutcome> {
        self.flush().await?;
        let last = last.encode()?;
        loop {
            let mut entries = self.activation.replay(Replay::take_rest);
            entries.push(last.clone());
            let commit = Commit::new().settle(self.finish_item());
            let there = self.activation.current_summary().await?;
            let commit = there.end(commit, state, self.activation.now())?;
            match self.commit(commit, entries.clone(), TaskOutcome::Acked).await? {
                Ended::Done(settled) => {
                    if settled == TaskOutcome::Acked {
                        let summary = &self.summarized().summary;
                        telemetry::run_ended(summary, state, self.activation.now());
                    }
                    return Ok(settled);
                }
                Ended::Moved if self.is_ended_elsewhere() => return self.acknowledge().await,
                Ended::Moved => {
                    entries.pop();
                    self.activation.replay(|replay| replay.put_back(entries));
                }
            }
        }
    }

    /// Starts a new generation: one entry, the deletion of everything older, and the item due at
    /// once.
    async fn continue_as_new(&mut self, input: RawJson) -> Result<TaskOutcome> {
        loop {
            let entry = self.continued(&input).encode()?;
            let (stream, version) = (keys::stream(self.run()), self.version);
            let append = Append::new(&stream, ExpectedVersion::Exact(version), [entry]);
            let there = self.activation.current_summary().await?;
            let summary = &there.summary;
            let next = Summary {
                generation: summary.generation + 1,
                begins: Some(version.plus(1)),
                ..summary.clone()
            };
            let mut commit = Commit::new()
                .with_append(append.and_close())
                .trim(&stream, version, tidelock_store::AfterTrim::Reopen)
                .settle(self.ack())
                .wake(Wake::at(self.activation.task.lease().item.clone(), When::NOW));
            commit.writes = there.update_writes(&next)?;
            match self.commit(commit, Vec::new(), TaskOutcome::Acked).await? {
                Ended::Done(settled) => return Ok(settled),
                Ended::Moved if self.is_ended_elsewhere() => return self.acknowledge().await,
                Ended::Moved => {}
            }
        }
    }

    fn continued(&self, input: &RawJson) -> Entry {
        let (carried, seen) = self.activation.replay(|replay| replay.continued());
        let metadata = self.activation.metadata.traced();
        let metadata = metadata.to_json().unwrap_or_else(|_| input.clone());
        let generation = self.activation.generation() + 1;
        Continued { generation, input: input.clone(), carried, seen, metadata }.into()
    }

    /// Writes entries that do not fit into the last commit.
    async fn flush(&mut self) -> Result<()> {
        while !self.activation.replay(Replay::make_room) {
            let Some(outgoing) = self.activation.next_batch() else { return Ok(()) };
            let (outgoing, sent) = self.send(outgoing).await?;
            if let super::After::Resend(outgoing) = self.on_result(outgoing, sent).await? {
                self.activation.replay(|replay| replay.put_back(outgoing.batch.entries));
            }
        }
        Ok(())
    }
}
