//! Drives one turn of a run: polls its function in place, writes what it records, and settles the
//! lease.
//!
//! The function is not spawned: steps that it awaits together share this task, and closures may
//! borrow. At most one commit is under way; the function goes on meanwhile. When it waits and
//! nothing of it runs, the turn ends: the function is dropped, and what it waits for is left to the
//! store.

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
use super::history::{self, Entry, OutOfTime};
use super::replay::Cancel;
use super::summary::Summarized;
use super::workflow::Code;
use crate::worker::{TaskOutcome, timed_out};
use body::{Body, Returned, Turn};
use recorder::{Sent, send};

/// What is over so soon is waited for with the run in hand.
const LINGER: Duration = Duration::from_secs(1);
/// How often a run in hand looks for signals without being told.
const GLANCE: Duration = Duration::from_secs(1);

/// A commit that is under way.
type Sending = BoxFuture<'static, Result<(Batch, Sent)>>;

/// One turn of a run.
pub(crate) struct Driver {
    activation: Arc<Activation>,
    /// The history is known up to here.
    version: Version,
    hint: Option<ChangeHint>,
    /// The function waits for something that is soon over, or that only it knows of.
    resting: bool,
    stopping: bool,
    /// How long the function may wait for what is not the run's, and since when it does.
    stall: Duration,
    moved: Instant,
}

/// What to do when the function waits and nothing of it runs.
enum IdleAction {
    /// It has moved after all.
    Again,
    Leave(Exit),
    Release,
    Rest,
    /// Until then, or until somebody wakes it.
    Suspend(Option<Timestamp>),
}

impl Driver {
    pub(crate) fn new(activation: Arc<Activation>, version: Version, stall: Duration) -> Self {
        let moved = Instant::now();
        Self { activation, version, hint: None, resting: false, stopping: false, stall, moved }
    }

    /// Drives it to the end of the turn.
    pub(crate) async fn drive(mut self, code: &dyn Code, input: RawJson) -> Result<TaskOutcome> {
        let mut body = Body::new(code.run(self.activation.clone(), input));
        let _closing = Closing(self.activation.clone());
        let mut sending: Option<Sending> = None;
        let mut returned: Option<Returned> = None;
        self.mind_the_deadline();
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
                    match self.take_in(batch, sent).await? {
                        After::Resend(batch) => sending = Some(self.send(batch)),
                        After::Lost => return Ok(TaskOutcome::Lost),
                        After::Done => {}
                    }
                }
                Turn::Late => self.tick(),
                Turn::Stopping => self.stop(),
                Turn::Hint => self.look().await?,
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
            if self.is_ended_by_others() {
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
            () = glance(hint.as_mut()), if listens => Turn::Hint,
            () = tokio::time::sleep(stalled), if !returned && !is_sending => Turn::Stalled,
        };
        self.resting = resting;
        self.hint = hint.or(self.hint.take());
        turn
    }

    /// Time enough has passed for the function to move. If a step runs, or something is to be
    /// written, it does.
    async fn stalled(&mut self) -> Result<Option<TaskOutcome>> {
        if !self.activation.state().is_quiet() {
            self.moved = Instant::now();
            return Ok(None);
        }
        let error = format!(
            "the workflow {} outside its steps: it waits for something that its ctx did not give it; put that into a step",
            timed_out(self.stall)
        );
        self.leave(Exit::Park(error)).await.map(Some)
    }

    /// Signals are of interest while something waits and the run is in hand for something else.
    fn listens(&self) -> bool {
        let state = self.activation.state();
        !state.outstanding.is_empty() && (state.active > 0 || self.resting)
    }

    /// Lent for the length of one wait. It is taken before the first look, and kept, so that
    /// nothing is missed.
    fn hint(&mut self) -> ChangeHint {
        let (store, item) = (self.activation.store(), &self.activation.task.lease().item);
        self.hint.take().unwrap_or_else(|| store.signal(Topic::Queue(item.queue.clone())))
    }

    /// The function waits, and nothing of it runs.
    async fn idle(&mut self) -> Result<Option<TaskOutcome>> {
        match self.stand() {
            IdleAction::Again => Ok(None),
            IdleAction::Rest => {
                self.resting = true;
                Ok(None)
            }
            IdleAction::Leave(exit) => self.leave(exit).await.map(Some),
            IdleAction::Release => self.release().await,
            IdleAction::Suspend(until) => match self.look_after_children().await? {
                true => Ok(None),
                false => self.suspend(until).await,
            },
        }
    }

    fn stand(&self) -> IdleAction {
        let mut state = self.activation.state();
        if let Some(exit) = state.exit.clone() {
            return IdleAction::Leave(exit);
        }
        if let super::activation::State { order, past, .. } = &mut *state
            && order.is_behind(past)
            && order.pass_over(past)
        {
            state.nudge();
            state.wake_all();
            return IdleAction::Again;
        }
        if state.order.is_replay() {
            return IdleAction::Leave(Exit::Park(state.misfit()));
        }
        if state.stopped {
            return IdleAction::Release;
        }
        if state.outstanding.is_empty() {
            return match state.waits_in_vain() {
                Some(misfit) => IdleAction::Leave(Exit::Park(misfit)),
                None => IdleAction::Rest,
            };
        }
        let until = min(state.next_timer(), self.deadline(state.cancel()));
        drop(state);
        let soon = self.activation.now().plus(LINGER);
        match until {
            Some(until) if until <= soon && !self.stopping => IdleAction::Rest,
            until => IdleAction::Suspend(until),
        }
    }

    /// A moment has come that something waited for.
    fn tick(&mut self) {
        self.mind_the_deadline();
        let now = self.activation.now();
        let mut state = self.activation.state();
        // Whatever still waits says so again when it is polled.
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

    /// When the run's time is up, unless it is to cancel anyway.
    fn deadline(&self, cancel: Option<&Cancel>) -> Option<Timestamp> {
        self.summarized().summary.deadline.filter(|_| cancel.is_none())
    }

    fn mind_the_deadline(&self) {
        let now = self.activation.now();
        let mut state = self.activation.state();
        let Some(deadline) = self.deadline(state.cancel()).filter(|deadline| *deadline <= now)
        else {
            return;
        };
        let entry = Entry::from(OutOfTime { deadline });
        state.queue.push(entry.encode().expect("a time can be stored"));
        state.absorb(entry).expect("a deadline does not clash with anything");
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

    /// Takes in what others wrote meanwhile.
    async fn look(&mut self) -> Result<()> {
        self.resting = false;
        self.catch_up().await?;
        self.look_after_children().await?;
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

    fn is_ended_by_others(&self) -> bool {
        self.activation.state().past.outcome.is_some()
    }
}

/// What follows from an answer of the store.
enum After {
    Done,
    Resend(Batch),
    Lost,
}

/// From here on, whatever the function lets go of is let go of because the turn is over.
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

/// Until there may be something, and no longer than a moment.
async fn glance(hint: Option<&mut ChangeHint>) {
    if let Some(hint) = hint {
        let _hint = tokio::time::timeout(GLANCE, hint.wait()).await;
    }
}
