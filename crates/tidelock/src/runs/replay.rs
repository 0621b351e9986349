//! Replay core: the state of one activation of a run, and its verbs.
//!
//! It is the folded history, and what the function and the driver have done since. It has no clock,
//! waker, channel, store or closure: [`Activation`](super::activation::Activation) is its shell.
//! Every operation has a [`Phase`]; `transition.rs` has the table of legal changes. Whatever is not
//! in the table parks the run instead of recording something wrong.
//!
//! The function is replayed against its history. A result is delivered only after everything known
//! before it has been requested again and delivered. An operation that is not recorded starts only
//! after the replay. If nothing progresses before the replay is over, the code is
//! non-deterministic: it does not fit its history.

mod cursor;
mod driving;
mod fold;
mod inbox;
#[cfg(test)]
mod model;
mod operation;
mod outbox;
mod transition;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use tidelock_store::{NewEvent, RawJson, Result, StoreError, Timestamp, limits};

use super::RunId;
use super::history::{Dropped, Entry, Patched, RunOutcome, Verdict, Won};
use super::names::StepName;
use cursor::{Cursor, Mark};
use inbox::Inbox;
use operation::{Operation, describe, operation_of};
use outbox::Outbox;
use transition::{Input, next};

pub(crate) use driving::{FailureContext, IdleAction};
pub(crate) use operation::{End, Kind, OpId, Phase, Progress};
pub(crate) use outbox::{Batch, Encoded, Landing};

/// A cancellation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cancel {
    pub(crate) reason: String,
    pub(crate) out_of_time: bool,
}

/// How the function ended without returning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It does not fit its history, or cannot continue here: parked until the code changes.
    Park(String),
    /// It can never continue.
    Fail(String),
    /// It starts over with this input.
    Continue(RawJson),
}

/// Where the code does not fit the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mismatch {
    /// The operation that the history has there, and whether its end is meant; `None` if the
    /// history has nothing more.
    pub(crate) recorded: Option<(StepName, bool)>,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Which operations have to be polled again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Wake {
    #[default]
    None,
    One(OpId),
    All,
}

/// When the end of an operation may be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// After it is in the store.
    Durable,
    /// At once: it is written with what comes next.
    Lazy,
}

/// What an operation waits for besides a time and a cancellation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum On {
    Time,
    Signal(String),
    Verdict,
    Child(RunId),
}

/// A wait of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wait {
    pub(crate) on: On,
    pub(crate) until: Option<Timestamp>,
    /// Whether it continues during cancellation.
    pub(crate) cleanup: bool,
}

/// What completed a wait. If several hold, the first in this order wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Woken {
    /// This signal came.
    Signal(String),
    /// The operator's verdict.
    Verdict(Verdict),
    /// The child ended.
    Child(RunOutcome),
    /// The run is being cancelled.
    Cancelled,
    /// The time came.
    Late,
}

/// A wait that is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pending {
    until: Option<Timestamp>,
    /// The child, and its outcome once it has ended.
    child: Option<(RunId, Option<RunOutcome>)>,
}

/// The state of one activation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replay<T = NewEvent> {
    input: Option<RawJson>,
    /// Metadata of the events that the run causes; `None` if it is in the metadata of the first
    /// event.
    metadata: Option<RawJson>,
    ops: Vec<Operation>,
    names: HashMap<StepName, OpId>,
    cursor: Cursor,
    inbox: Inbox,
    cancel: Option<Cancel>,
    cancel_seen: bool,
    /// Recorded sides of code changes.
    patches: HashMap<StepName, bool>,
    /// Patches that the run took before, and that the function has not asked for yet, with the
    /// length of the order when they were recorded. Code that never asks for one does not know the
    /// change, so it does not fit the history.
    taken_before: Vec<(StepName, usize)>,
    /// Winners of races.
    races: HashMap<StepName, usize>,
    /// Races of this activation.
    racing: BTreeSet<StepName>,
    /// Verdicts on steps with unknown outcome.
    resolutions: HashMap<StepName, Verdict>,
    /// Consecutive holders that died without recording anything.
    crashes: u32,
    /// How the run ended, unless it was retried.
    outcome: Option<RunOutcome>,
    compensated: bool,
    outbox: Outbox<T>,
    /// Ends that are queued, by the number of their entry.
    ending: Vec<(u64, OpId)>,
    waits: BTreeMap<OpId, Pending>,
    /// Effects in flight.
    running: usize,
    /// The first operation that is not recorded and was requested during the replay.
    blocked_on: Option<String>,
    stopping: bool,
    /// An effect would begin, but the worker is shutting down: that of this operation.
    begin_refused: Option<OpId>,
    /// Where the code does not fit the history, once that is known.
    mismatch: Option<Mismatch>,
    exit: Option<Exit>,
    /// The driver is dropping the function.
    closing: bool,
    wake: Wake,
    /// A deliberate error that the model check has to find.
    #[cfg(test)]
    fault: model::Fault,
}

impl<T: Encoded> Default for Replay<T> {
    fn default() -> Self {
        Self {
            input: None,
            metadata: None,
            ops: Vec::new(),
            names: HashMap::new(),
            cursor: Cursor::default(),
            inbox: Inbox::default(),
            cancel: None,
            cancel_seen: false,
            patches: HashMap::new(),
            taken_before: Vec::new(),
            races: HashMap::new(),
            racing: BTreeSet::new(),
            resolutions: HashMap::new(),
            crashes: 0,
            outcome: None,
            compensated: false,
            outbox: Outbox::default(),
            ending: Vec::new(),
            waits: BTreeMap::new(),
            running: 0,
            blocked_on: None,
            stopping: false,
            begin_refused: None,
            mismatch: None,
            exit: None,
            closing: false,
            wake: Wake::None,
            #[cfg(test)]
            fault: model::Fault::None,
        }
    }
}

/// Reads.
impl<T: Encoded> Replay<T> {
    pub(crate) fn input(&self) -> Option<&RawJson> {
        self.input.as_ref()
    }

    pub(crate) fn metadata(&self) -> Option<&RawJson> {
        self.metadata.as_ref()
    }

    pub(crate) fn outcome(&self) -> Option<&RunOutcome> {
        self.outcome.as_ref()
    }

    /// Consecutive holders that died without recording anything.
    pub(crate) fn crashes(&self) -> u32 {
        self.crashes
    }

    /// Whether the function has not come as far as before.
    pub(crate) fn is_replay(&self) -> bool {
        self.cursor.is_replay() || !self.taken_before.is_empty()
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_some()
    }

    /// How the function ended without returning, if it did.
    pub(crate) fn exit(&self) -> Option<&Exit> {
        self.exit.as_ref()
    }

    /// Where the code does not fit the history, if it does not.
    pub(crate) fn mismatch(&self) -> Option<&Mismatch> {
        self.mismatch.as_ref()
    }

    /// The operation whose effect would begin, if the worker did not shut down.
    pub(crate) fn refused_effect(&self) -> Option<String> {
        self.begin_refused.map(|op| self.ops[op].describe())
    }

    pub(crate) fn has_left(&self) -> bool {
        self.exit.is_some()
    }

    /// Whether a write has a waiter.
    pub(crate) fn wants_write(&self) -> bool {
        self.outbox.is_wanted()
    }

    /// Whether no effect is in flight and no write is wanted.
    pub(crate) fn is_quiet(&self) -> bool {
        self.running == 0 && !self.wants_write()
    }

    pub(crate) fn has_effects(&self) -> bool {
        self.running > 0
    }

    pub(crate) fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// The earliest time at which something continues: a wait, or the run's deadline.
    pub(crate) fn next_time(&self, deadline: Option<Timestamp>) -> Option<Timestamp> {
        let waits = self.waits.values().filter_map(|wait| wait.until);
        waits.chain(deadline.filter(|_| self.cancel.is_none())).min()
    }

    /// Children that are waited for and are not known to have ended.
    pub(crate) fn open_children(&self) -> Vec<(OpId, RunId)> {
        let children = self.waits.iter().filter_map(|(op, wait)| match &wait.child {
            Some((run, None)) => Some((*op, run.clone())),
            _ => None,
        });
        children.collect()
    }

    /// The payload of a received signal.
    pub(crate) fn payload(&self, id: &str) -> Option<&RawJson> {
        self.inbox.payload(id)
    }

    pub(crate) fn progress(&self, op: OpId) -> Progress {
        self.ops[op].progress.clone()
    }

    /// Whether something of it is recorded, or queued.
    pub(crate) fn is_recorded(&self, op: OpId) -> bool {
        self.ops[op].phase != Phase::New
    }

    pub(crate) fn is_ended(&self, op: OpId) -> bool {
        self.ops[op].end.is_some()
    }
}

/// Verbs of the function.
impl<T: Encoded> Replay<T> {
    /// Requests the operation of this name. `None` if the name is used twice or recorded as another
    /// kind: then the activation is over.
    pub(crate) fn request(&mut self, name: &StepName, kind: Kind) -> Option<OpId> {
        let Some(op) = self.names.get(name).copied() else {
            let op = self.ops.len();
            self.ops.push(Operation::new(name, kind, Phase::New));
            self.names.insert(name.clone(), op);
            return Some(op);
        };
        let recorded = &self.ops[op];
        if recorded.phase.is_requested() {
            self.leave(Exit::Fail(used_twice(name)));
            return None;
        }
        if recorded.kind != kind {
            let (expected, found) = (recorded.describe(), describe(kind, name));
            self.mismatch.get_or_insert(Mismatch {
                recorded: Some((name.clone(), false)),
                expected: expected.clone(),
                found: found.clone(),
            });
            self.leave(Exit::Park(format!(
                "non-determinism: the code does not fit the history: expected {expected} (recorded), found {found}"
            )));
            return None;
        }
        self.shift(op, Input::Request);
        self.advance();
        Some(op)
    }

    /// Whether replay has consumed the recorded history, so that this operation may do something
    /// new. One that was dropped in an earlier activation never may.
    pub(crate) fn is_caught_up(&mut self, op: OpId) -> bool {
        if self.is_replay() {
            let asked = self.ops[op].describe();
            self.blocked_on.get_or_insert(asked);
            return false;
        }
        self.ops[op].phase != Phase::Orphan
    }

    /// Whether an effect may begin: not while the worker shuts down.
    pub(crate) fn may_begin(&mut self, op: OpId) -> bool {
        if self.stopping {
            self.begin_refused.get_or_insert(op);
        }
        !self.stopping
    }

    /// The number of the newest entry.
    pub(crate) fn newest(&self) -> u64 {
        self.outbox.newest
    }

    /// Whether all entries up to this number are durable; if not, they are wanted.
    pub(crate) fn is_written(&mut self, number: u64) -> bool {
        self.outbox.want(number);
        self.outbox.durable >= number
    }

    /// Queues an entry other than the operation's end; it is written with the next batch.
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub(crate) fn note(&mut self, op: OpId, entry: impl Into<Entry>) -> Result<()> {
        let entry = entry.into();
        let encoded = encode(&entry)?;
        let was_new = self.ops[op].phase == Phase::New;
        if self.shift(op, Input::Note) {
            self.apply(op, &entry);
            self.outbox.push(encoded);
            self.mark_began(op, was_new);
        }
        Ok(())
    }

    /// Queues the operation's end.
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub(crate) fn end(
        &mut self,
        op: OpId,
        entry: impl Into<Entry>,
        durability: Durability,
    ) -> Result<()> {
        let entry = entry.into();
        let encoded = encode(&entry)?;
        let number = match durability {
            Durability::Durable => self.outbox.newest + 1,
            Durability::Lazy => 0,
        };
        if self.shift(op, Input::End(number)) {
            self.outbox.push(encoded);
            self.outbox.want(number);
            self.mark_ended(op, &entry, number);
        }
        Ok(())
    }

    /// Queues an entry that is committed together with the writes that the operation staged.
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub(crate) fn stage(&mut self, op: OpId, entry: impl Into<Entry>) -> Result<()> {
        let entry = entry.into();
        let encoded = encode(&entry)?;
        let was_open = self.ops[op].phase == Phase::Open;
        if self.shift(op, Input::Stage) {
            self.outbox.stage(op, encoded, entry, was_open);
        }
        Ok(())
    }

    /// What completes the wait, if something does; otherwise the operation is registered as
    /// waiting.
    pub(crate) fn wait(&mut self, op: OpId, wait: &Wait, now: Timestamp) -> Option<Woken> {
        let woken = self.event(op, &wait.on).or_else(|| {
            if !wait.cleanup && self.cancel.is_some() {
                return Some(Woken::Cancelled);
            }
            wait.until.filter(|until| *until <= now).map(|_| Woken::Late)
        });
        if woken.is_some() {
            self.waits.remove(&op);
            return woken;
        }
        let child = match &wait.on {
            On::Child(run) => Some((run.clone(), None)),
            _ => None,
        };
        self.waits.insert(op, Pending { until: wait.until, child });
        None
    }

    fn event(&mut self, op: OpId, on: &On) -> Option<Woken> {
        match on {
            On::Time => None,
            On::Signal(signal) => {
                let id = self.inbox.next(signal)?.to_owned();
                self.inbox.receive(&id);
                Some(Woken::Signal(id))
            }
            On::Verdict => {
                let name = &self.ops[op].name;
                self.resolutions.get(name).cloned().map(Woken::Verdict)
            }
            On::Child(_) => {
                let (_, outcome) = self.waits.get_mut(&op)?.child.as_mut()?;
                outcome.take().map(Woken::Child)
            }
        }
    }

    /// An external effect begins or ends. The driver keeps the turn open meanwhile.
    pub(crate) fn effect(&mut self, begins: bool) {
        match begins {
            true => self.running += 1,
            false => self.running -= 1,
        }
    }

    /// The end of the operation, once everything known before it has been delivered.
    pub(crate) fn result(&mut self, op: OpId) -> Option<End> {
        let operation = &self.ops[op];
        let is_next = match operation.phase {
            Phase::PassedOver => true,
            Phase::Ended => self.cursor.is_at(operation.end_mark),
            _ => false,
        };
        #[cfg(test)]
        let is_next =
            is_next || (self.fault == model::Fault::AnyOrder && operation.phase == Phase::Ended);
        if !is_next {
            return None;
        }
        let end = operation.end.clone();
        self.shift(op, Input::Deliver);
        self.advance();
        end
    }

    /// Drops an operation. If it is recorded, the drop is recorded, too; otherwise it leaves no
    /// trace.
    pub(crate) fn abandon(&mut self, op: OpId) {
        self.waits.remove(&op);
        self.outbox.unstage(op);
        if self.closing {
            return;
        }
        let was = self.ops[op].phase;
        if !self.shift(op, Input::Abandon) {
            return;
        }
        let name = self.ops[op].name.clone();
        match self.ops[op].phase {
            Phase::Removed => drop(self.names.remove(&name)),
            Phase::Abandoned if was != Phase::Orphan => {
                self.push(Dropped { name });
                self.return_signal(op);
            }
            _ => {}
        }
        self.advance();
    }

    /// Which side of a code change the run is on.
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub(crate) fn patched(&mut self, name: &StepName) -> Result<bool> {
        if let Some(taken) = self.patches.get(name).copied() {
            self.ask_for(name);
            return Ok(taken);
        }
        let taken = !self.is_replay();
        self.outbox.push(encode(&Patched { name: name.clone(), taken }.into())?);
        self.patches.insert(name.clone(), taken);
        Ok(taken)
    }

    /// The function knows this patch.
    fn ask_for(&mut self, patch: &StepName) {
        let was_replay = self.is_replay();
        self.taken_before.retain(|(name, _)| name != patch);
        if was_replay && !self.is_replay() {
            self.wakes(Wake::All);
        }
    }

    /// Begins a race of so many branches, and returns its recorded winner if there is one. `None`
    /// if another race of this activation has the name, or if the winner is none of these branches:
    /// then the activation is over.
    pub(crate) fn begin_race(&mut self, name: &StepName, branches: usize) -> Option<Option<usize>> {
        if !self.racing.insert(name.clone()) {
            self.leave(Exit::Fail(used_twice(name)));
            return None;
        }
        let winner = self.races.get(name).copied();
        if let Some(winner) = winner.filter(|winner| *winner >= branches) {
            self.lacks_branch(name, winner, branches);
            return None;
        }
        Some(winner)
    }

    /// A race was won by a branch that it no longer has.
    fn lacks_branch(&mut self, name: &StepName, winner: usize, branches: usize) {
        let name = name.as_str();
        let (expected, found) = (
            format!("race {name:?} won by branch {winner}, counted from 0"),
            format!("race {name:?} with {branches} branches"),
        );
        self.leave(Exit::Park(format!(
            "non-determinism: the code does not fit the history: expected {expected} (recorded), found {found}"
        )));
        self.mismatch.get_or_insert(Mismatch { recorded: None, expected, found });
    }

    /// Ends a race. One that is dropped before it is won leaves no trace.
    pub(crate) fn end_race(&mut self, name: &StepName) {
        if !self.races.contains_key(name) {
            self.racing.remove(name);
        }
    }

    /// Records the winner of a race.
    ///
    /// # Errors
    /// Returns an error if it cannot be stored.
    pub(crate) fn won(&mut self, name: &StepName, branch: usize) -> Result<()> {
        self.outbox.push(encode(&Won { name: name.clone(), branch }.into())?);
        self.races.insert(name.clone(), branch);
        Ok(())
    }

    /// The reason of the cancellation, which the function has now observed.
    pub(crate) fn observe_cancel(&mut self) -> String {
        self.cancel_seen = true;
        self.cancel.as_ref().map(|cancel| cancel.reason.clone()).unwrap_or_default()
    }

    /// Steps are being compensated.
    pub(crate) fn compensate(&mut self) {
        self.compensated = true;
    }

    /// Ends the activation. The first exit is kept.
    pub(crate) fn leave(&mut self, exit: Exit) {
        self.exit.get_or_insert(exit);
    }
}

/// Transitions.
impl<T: Encoded> Replay<T> {
    /// Changes the phase of an operation by the table. An input that is not legal parks the run.
    fn shift(&mut self, op: OpId, input: Input) -> bool {
        let phase = self.ops[op].phase;
        match next(phase, input) {
            Some(next) => {
                self.ops[op].phase = next;
                true
            }
            None => {
                let error =
                    format!("internal: {input:?} of {} in {phase:?}", self.ops[op].describe());
                debug_assert!(false, "{error}");
                self.leave(Exit::Park(error));
                false
            }
        }
    }

    fn mark_began(&mut self, op: OpId, was_new: bool) -> Option<usize> {
        let mark = was_new.then(|| self.cursor.push(Mark::Began(op)));
        self.advance();
        mark
    }

    fn mark_ended(&mut self, op: OpId, entry: &Entry, number: u64) -> usize {
        self.apply(op, entry);
        let mark = self.cursor.push(Mark::Ended(op));
        let operation = &mut self.ops[op];
        operation.end = operation_of(entry).and_then(|(_, _, end)| end);
        operation.end_mark = Some(mark);
        if number > 0 {
            self.ending.push((number, op));
        }
        self.advance();
        mark
    }

    /// A staged entry is taken into a commit; returns its place in the order.
    fn mark_committing(&mut self, op: OpId, entry: &Entry, number: u64) -> Option<usize> {
        let was_open = self.ops[op].phase == Phase::Staged { was_open: true };
        let ends = operation_of(entry).is_some_and(|(_, _, end)| end.is_some());
        if !self.shift(op, Input::Commit { number, ends }) {
            return None;
        }
        match ends {
            true => Some(self.mark_ended(op, entry, number)),
            false => self.mark_began(op, !was_open),
        }
    }

    /// Queues an entry that always can be stored.
    fn push(&mut self, entry: impl Into<Entry>) {
        if let Ok(entry) = encode(&entry.into()) {
            self.outbox.push(entry);
        }
    }

    fn advance(&mut self) {
        let wake = self.cursor.advance(&self.ops);
        self.wakes(wake);
        #[cfg(debug_assertions)]
        self.check();
    }

    fn wakes(&mut self, wake: Wake) {
        self.wake = match (self.wake, wake) {
            (Wake::None, wake) | (wake, Wake::None) => wake,
            (one, other) if one == other => one,
            _ => Wake::All,
        };
    }

    /// The invariants that hold after every transition.
    #[cfg(debug_assertions)]
    fn check(&self) {
        debug_assert!(
            self.cursor.is_consistent(&self.ops),
            "nothing is passed that is outstanding"
        );
        debug_assert!(self.outbox.durable <= self.outbox.newest, "what is durable was queued");
        debug_assert!(
            self.ending.iter().all(|(number, _)| *number > self.outbox.durable),
            "a durable end is no longer awaited"
        );
    }
}

/// Encodes an entry and checks its size: an entry that the store refuses would block all later
/// ones.
fn encode<T: Encoded>(entry: &Entry) -> Result<T> {
    let encoded = T::encode(entry)?;
    let bytes = encoded.bytes();
    if bytes > limits::PAYLOAD_BYTES {
        let error = format!("it has {bytes} bytes; the limit is {}", limits::PAYLOAD_BYTES);
        return Err(StoreError::limit(error));
    }
    Ok(encoded)
}

/// The error for a name that is used twice.
fn used_twice(name: &StepName) -> String {
    format!(
        "the name {:?} is used twice in one run; give every step, sleep, wait, child, value and race a name of its own, in a loop \
         with the number of the round",
        name.as_str()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::history::{StepDone, Timer};

    fn name(name: &str) -> StepName {
        StepName::new(name).unwrap()
    }

    fn done(step: &str) -> StepDone {
        StepDone { name: name(step), result: RawJson::new(&7).unwrap() }
    }

    fn replay(history: impl IntoIterator<Item = Entry>) -> Replay<Entry> {
        let mut replay = Replay::default();
        history.into_iter().for_each(|entry| replay.fold(entry).unwrap());
        replay.start();
        replay
    }

    #[test]
    fn a_step_whose_commit_failed_and_that_is_dropped_leaves_no_trace() {
        let mut replay = replay([]);
        let op = replay.request(&name("pay"), Kind::Step).unwrap();
        replay.stage(op, done("pay")).unwrap();
        let batch = replay.next_batch().unwrap();
        replay.landing_failed(&batch.landing.unwrap());
        replay.abandon(op);
        assert!(replay.take_rest().is_empty(), "nothing was recorded, so no drop is");
        assert!(replay.request(&name("pay"), Kind::Step).is_some(), "the name is free");
        assert_eq!(replay.exit, None);
    }

    #[test]
    fn a_step_that_is_dropped_while_its_commit_fails_frees_its_name() {
        let mut replay = replay([]);
        let op = replay.request(&name("pay"), Kind::Step).unwrap();
        replay.stage(op, done("pay")).unwrap();
        let batch = replay.next_batch().unwrap();
        replay.abandon(op);
        replay.landing_failed(&batch.landing.unwrap());
        let again = replay.request(&name("pay"), Kind::Step).unwrap();
        replay.end(again, done("pay"), Durability::Lazy).unwrap();
        assert_eq!(replay.result(again), Some(End::Done(RawJson::new(&7).unwrap())));
    }

    #[test]
    fn an_operation_that_was_dropped_before_begins_nothing() {
        let until = Timestamp::from_micros(7).unwrap();
        let nap = Timer { name: name("nap"), until };
        let mut replay = replay([nap.into(), Dropped { name: name("nap") }.into()]);
        let op = replay.request(&name("nap"), Kind::Sleep).unwrap();
        assert!(!replay.is_caught_up(op));
        let idle = replay.when_idle(None, until);
        assert!(
            matches!(&idle, IdleAction::Leave(Exit::Park(error)) if error.contains("was dropped before")),
            "{idle:?}"
        );
    }

    #[test]
    fn the_first_exit_is_kept() {
        let mut replay = replay([]);
        replay.leave(Exit::Fail("first".into()));
        replay.leave(Exit::Park("second".into()));
        assert_eq!(replay.returned(), Some(Exit::Fail("first".into())));
    }
}
