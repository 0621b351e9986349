//! Driver: runs one turn of a run. It polls the function, writes its entries, and settles the
//! lease.
//!
//! The function is not spawned: steps that it awaits together share this task, and closures may
//! borrow. At most one commit is in flight; the function continues meanwhile. When the function
//! waits and no effect is in flight, the turn ends: the function is dropped, and a timer, a signal
//! or a child's end wakes the run's item later.

mod body;
mod children;
mod ending;
mod recorder;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidelock_store::{ChangeHint, RawJson, Result, Timestamp, Topic, Version};
use tokio::time::Instant;

use super::RunId;
use super::activation::{Activation, Batch, Exit};
use super::definition::Code;
use super::history::{self, Entry, OutOfTime};
use super::replay::Cancel;
use super::summary::Summarized;
use crate::worker::{TaskOutcome, timed_out};
use body::{Body, Returned, Turn};
use recorder::{Sent, send};

/// Timers shorter than this are awaited without ending the turn.
const SHORT_WAIT: Duration = Duration::from_secs(1);
/// How often signals are polled without a hint during a turn.
const HINT_POLL: Duration = Duration::from_secs(1);

/// A commit in flight.
type Sending = BoxFuture<'static, Result<(Batch, Sent)>>;

/// One turn of a run.
pub(crate) struct Driver {
    activation: Arc<Activation>,
    /// The known version of the history.
    version: Version,
    hint: Option<ChangeHint>,
    /// The function waits for a short timer, or for something outside of the context.
    resting: bool,
    stopping: bool,
    /// How long the function may wait outside of the context, and when it last progressed.
    stall: Duration,
    moved: Instant,
}

/// What to do when the function waits and no effect is in flight.
enum IdleAction {
    /// Poll the function again.
    Again,
    Leave(Exit),
    Release,
    Rest,
    /// End the turn until this time, or until the item is woken.
    Suspend(Option<Timestamp>),
}

impl Driver {
    pub(crate) fn new(activation: Arc<Activation>, version: Version, stall: Duration) -> Self {
        let moved = Instant::now();
        Self { activation, version, hint: None, resting: false, stopping: false, stall, moved }
    }

    /// Runs the turn to its end.
    pub(crate) async fn drive(mut self, code: &dyn Code, input: RawJson) -> Result<TaskOutcome> {
        let mut body = Body::new(code.run(self.activation.clone(), input));
        let _closing = Closing(self.activation.clone());
        let mut sending: Option<Sending> = None;
        let mut returned: Option<Returned> = None;
        self.enforce_deadline();
        loop {
            if sending.is_none() {
                sending = self.next_batch().map(|batch| self.send(batch));
            }
            if sending.is_none()
                && let Some(returned) = returned.take()
            {
                return self.finish(returned).await;
            }
            match self.turn(&mut body, &mut sending, returned.is_some()).await {
                Turn::Lost => return Ok(TaskOutcome::Lost),
                Turn::Wants => {}
                Turn::Returned(end) => returned = Some(end),
                Turn::Sent(sent) => {
                    (sending, self.moved) = (None, Instant::now());
                    let (batch, sent) = sent?;
                    match self.on_result(batch, sent).await? {
                        After::Resend(batch) => sending = Some(self.send(batch)),
                        After::Lost => return Ok(TaskOutcome::Lost),
                        After::Done => {}
                    }
                }
                Turn::Late => self.tick(),
                Turn::Stopping => self.stop(),
                Turn::Hint => self.on_hint().await?,
                Turn::Stalled => {
                    if let Some(settled) = self.stalled().await? {
                        return Ok(settled);
                    }
                }
                Turn::Idle => {
                    if let Some(settled) = self.idle().await? {
                        return Ok(settled);
                    }
                }
            }
            if self.is_ended_elsewhere() {
                return self.acknowledge().await;
            }
        }
    }

    async fn turn(
        &mut self,
        body: &mut Body<'_>,
        sending: &mut Option<Sending>,
        returned: bool,
    ) -> Turn {
        let task = self.activation.task.clone();
        let (timer, listens) = (self.next_timer(), self.listens());
        let wait = timer.map(|timer| timer.since(self.activation.now()));
        let mut hint = listens.then(|| self.hint());
        let (stopping, mut resting, is_sending) = (self.stopping, self.resting, sending.is_some());
        let stalled = self.stall.saturating_sub(self.moved.elapsed());
        let turn = tokio::select! {
            biased;
            () = task.lost().cancelled() => Turn::Lost,
            sent = poll_some(sending) => Turn::Sent(sent),
            turn = body.turn(&self.activation, &mut resting, is_sending), if !returned => turn,
            () = task.stopping().cancelled(), if !stopping => Turn::Stopping,
            () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => Turn::Late,
            () = wait_for_hint(hint.as_mut()), if listens => Turn::Hint,
            () = tokio::time::sleep(stalled), if !returned && !is_sending => Turn::Stalled,
        };
        self.resting = resting;
        self.hint = hint.or(self.hint.take());
        turn
    }

    /// Handles a function without progress. An effect in flight or a pending write counts as
    /// progress.
    async fn stalled(&mut self) -> Result<Option<TaskOutcome>> {
        if !self.activation.state().is_quiet() {
            self.moved = Instant::now();
            return Ok(None);
        }
        let error = format!(
            "the workflow {} outside its steps: it waits for something outside of its ctx; move that into a step",
            timed_out(self.stall)
        );
        self.leave(Exit::Park(error)).await.map(Some)
    }

    /// Whether to listen for signals: something waits, and the turn stays open.
    fn listens(&self) -> bool {
        let state = self.activation.state();
        !state.outstanding.is_empty() && (state.active > 0 || self.resting)
    }

    /// Takes the subscription for one wait. It is created before the first read and kept, so that
    /// no hint is missed.
    fn hint(&mut self) -> ChangeHint {
        let (store, item) = (self.activation.store(), &self.activation.task.lease().item);
        self.hint.take().unwrap_or_else(|| store.signal(Topic::Queue(item.queue.clone())))
    }

    /// The function waits, and no effect is in flight.
    async fn idle(&mut self) -> Result<Option<TaskOutcome>> {
        match self.idle_action() {
            IdleAction::Again => Ok(None),
            IdleAction::Rest => {
                self.resting = true;
                Ok(None)
            }
            IdleAction::Leave(exit) => self.leave(exit).await.map(Some),
            IdleAction::Release => self.release().await,
            IdleAction::Suspend(until) => match self.check_children().await? {
                true => Ok(None),
                false => self.suspend(until).await,
            },
        }
    }

    fn idle_action(&self) -> IdleAction {
        let mut state = self.activation.state();
        if let Some(exit) = state.exit.clone() {
            return IdleAction::Leave(exit);
        }
        if let super::activation::State { cursor, past, .. } = &mut *state
            && cursor.is_behind(past)
            && cursor.skip_end(past)
        {
            state.advance();
            state.wake_all();
            return IdleAction::Again;
        }
        if state.cursor.is_replay() {
            return IdleAction::Leave(Exit::Park(state.non_determinism()));
        }
        if state.stopped {
            return IdleAction::Release;
        }
        if state.outstanding.is_empty() {
            return match state.awaited_after_drop() {
                Some(non_determinism) => IdleAction::Leave(Exit::Park(non_determinism)),
                None => IdleAction::Rest,
            };
        }
        let until = min(state.next_timer(), self.deadline(state.cancel()));
        drop(state);
        let soon = self.activation.now().plus(SHORT_WAIT);
        match until {
            Some(until) if until <= soon && !self.stopping => IdleAction::Rest,
            until => IdleAction::Suspend(until),
        }
    }

    /// A timer has fired.
    fn tick(&mut self) {
        self.enforce_deadline();
        let now = self.activation.now();
        let mut state = self.activation.state();
        // Operations that still wait register again when they are polled.
        state.outstanding.retain(|_, until| until.is_none_or(|until| until > now));
        state.wake_all();
    }

    fn stop(&mut self) {
        (self.stopping, self.resting) = (true, false);
        self.activation.state().wake_all();
    }

    fn next_timer(&self) -> Option<Timestamp> {
        let state = self.activation.state();
        min(state.next_timer(), self.deadline(state.cancel()))
    }

    /// The run's deadline, unless it is being cancelled.
    fn deadline(&self, cancel: Option<&Cancel>) -> Option<Timestamp> {
        self.summarized().summary.deadline.filter(|_| cancel.is_none())
    }

    fn enforce_deadline(&self) {
        let now = self.activation.now();
        let mut state = self.activation.state();
        let Some(deadline) = self.deadline(state.cancel()).filter(|deadline| *deadline <= now)
        else {
            return;
        };
        let entry = Entry::from(OutOfTime { deadline });
        state.queue.push(entry.encode().expect("a time can be stored"));
        state.absorb(entry).expect("a deadline conflicts with nothing");
    }

    fn next_batch(&self) -> Option<Batch> {
        let mut state = self.activation.state();
        if !state.queue.is_wanted() {
            return None;
        }
        let mut batch = state.queue.take();
        if let Some(landing) = &mut batch.landing {
            match landing.end.take() {
                Some(end) => state.end(landing.at, end, batch.newest),
                None => state.open(landing.at),
            }
        }
        Some(batch)
    }

    fn send(&self, batch: Batch) -> Sending {
        Box::pin(send(self.activation.clone(), self.version, batch))
    }

    /// Reads what other processes wrote meanwhile.
    async fn on_hint(&mut self) -> Result<()> {
        self.resting = false;
        self.catch_up().await?;
        self.check_children().await?;
        Ok(())
    }

    async fn catch_up(&mut self) -> Result<()> {
        let store = self.activation.store();
        for event in history::events(&**store, self.run(), Some(self.version.plus(1))).await? {
            let entry = Entry::decode(&event)?;
            self.activation.state().absorb(entry)?;
            self.version = event.version;
        }
        Ok(())
    }

    fn summarized(&self) -> &Summarized {
        &self.activation.summarized
    }

    fn run(&self) -> &RunId {
        self.activation.run()
    }

    fn is_ended_elsewhere(&self) -> bool {
        self.activation.state().past.outcome.is_some()
    }
}

/// What follows from a commit's result.
enum After {
    Done,
    Resend(Batch),
    Lost,
}

/// Marks operations dropped after this as dropped by the end of the turn.
struct Closing(Arc<Activation>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

fn min(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

async fn poll_some(sending: &mut Option<Sending>) -> Result<(Batch, Sent)> {
    match sending {
        Some(sending) => sending.await,
        None => std::future::pending().await,
    }
}

/// Waits for a hint, for at most the poll interval.
async fn wait_for_hint(hint: Option<&mut ChangeHint>) {
    if let Some(hint) = hint {
        let _hint = tokio::time::timeout(HINT_POLL, hint.wait()).await;
    }
}
