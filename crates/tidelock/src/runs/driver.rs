//! Driver: runs one turn of a run. It polls the function, writes its entries, and settles the
//! lease.
//!
//! The function is not spawned: steps that it awaits together share this task, and closures may
//! borrow. At most one commit is in flight; the function continues meanwhile. When the function
//! waits and no effect is in flight, the turn ends: the function is dropped, and a timer, a signal
//! or a child's end wakes the run's item later.

mod body;
mod commit;
mod settle;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tidelock_store::{ChangeHint, RawJson, Result, Timestamp, Topic, Version, limits};
use tokio::time::Instant;

use super::activation::{Activation, Outgoing};
use super::definition::Code;
use super::history::{self, Entry, RunOutcome};
use super::replay::{Exit, IdleAction, OpId, Replay};
use super::summary::Summarized;
use super::{RunId, keys};
use crate::worker::{TaskOutcome, timed_out};
use body::{Body, Returned, Turn};
use commit::{Sent, send};

/// How often signals are polled without a hint during a turn.
const HINT_POLL: Duration = Duration::from_secs(1);

/// A commit in flight.
type Sending = BoxFuture<'static, Result<(Outgoing, Sent)>>;

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
        self.enforce_deadline()?;
        loop {
            if sending.is_none() {
                sending = self.activation.next_batch().map(|outgoing| self.send(outgoing));
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
                    let (outgoing, sent) = sent?;
                    match self.on_result(outgoing, sent).await? {
                        After::Resend(outgoing) => sending = Some(self.send(outgoing)),
                        After::Lost => return Ok(TaskOutcome::Lost),
                        After::Done => {}
                    }
                }
                Turn::Late => self.tick()?,
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
        let (timer, listens) = (self.next_time(), self.listens());
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
        if !self.activation.replay(|replay| replay.is_quiet()) {
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
        let resting = self.resting;
        self.activation.replay(|replay| replay.has_waits() && (replay.has_effects() || resting))
    }

    /// Takes the subscription for one wait. It is created before the first read and kept, so that
    /// no hint is missed.
    fn hint(&mut self) -> ChangeHint {
        let (store, item) = (self.activation.store(), &self.activation.task.lease().item);
        self.hint.take().unwrap_or_else(|| store.signal(Topic::Queue(item.queue.clone())))
    }

    /// The function waits, and no effect is in flight.
    async fn idle(&mut self) -> Result<Option<TaskOutcome>> {
        let (deadline, now) = (self.deadline(), self.activation.now());
        match self.activation.replay(|replay| replay.when_idle(deadline, now)) {
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

    /// A timer has fired.
    fn tick(&self) -> Result<()> {
        self.enforce_deadline()?;
        let now = self.activation.now();
        self.activation.replay(|replay| replay.tick(now));
        Ok(())
    }

    fn stop(&mut self) {
        (self.stopping, self.resting) = (true, false);
        self.activation.replay(Replay::stop);
    }

    fn next_time(&self) -> Option<Timestamp> {
        let deadline = self.deadline();
        self.activation.replay(|replay| replay.next_time(deadline))
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.summarized().summary.deadline
    }

    fn enforce_deadline(&self) -> Result<()> {
        let (deadline, now) = (self.deadline(), self.activation.now());
        self.activation.replay(|replay| replay.enforce(deadline, now))
    }

    fn send(&self, outgoing: Outgoing) -> Sending {
        Box::pin(send(self.activation.clone(), self.version, outgoing))
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
            self.activation.replay(|replay| replay.absorb(entry))?;
            self.version = event.version;
        }
        Ok(())
    }

    /// Checks whether children have ended, and returns whether one has.
    async fn check_children(&mut self) -> Result<bool> {
        let waited = self.activation.replay(|replay| replay.open_children());
        let mut any = false;
        for waited in waited.chunks(limits::PAGE_SIZE) {
            any |= self.look_after(waited).await?;
        }
        Ok(any)
    }

    async fn look_after(&self, children: &[(OpId, RunId)]) -> Result<bool> {
        let store = self.activation.store();
        let keys: Vec<_> = children.iter().map(|(_, run)| keys::summary(run)).collect();
        let mut any = false;
        for ((op, run), slot) in children.iter().zip(store.get(&keys).await?) {
            let outcome = match Summarized::of(run, &slot)? {
                Some(child) if !child.summary.state.is_ended() => continue,
                Some(child) => history::outcome(&**store, &child).await?,
                None => None,
            };
            let outcome =
                outcome.unwrap_or_else(|| RunOutcome::Terminated("it no longer exists".into()));
            self.activation.replay(|replay| replay.child_ended(*op, outcome));
            any = true;
        }
        Ok(any)
    }

    fn summarized(&self) -> &Summarized {
        &self.activation.summarized
    }

    fn run(&self) -> &RunId {
        self.activation.run()
    }

    fn is_ended_elsewhere(&self) -> bool {
        self.activation.replay(|replay| replay.outcome().is_some())
    }
}

/// What follows from a commit's result.
enum After {
    Done,
    Resend(Outgoing),
    Lost,
}

/// Marks operations dropped after this as dropped by the end of the turn.
struct Closing(Arc<Activation>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.replay(Replay::close);
    }
}

async fn poll_some(sending: &mut Option<Sending>) -> Result<(Outgoing, Sent)> {
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
