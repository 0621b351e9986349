//! The world of a simulation: the one store, its calendar, the plan, and the record of everything
//! that happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock::store::Clock;
use tokio::time::Instant;

use super::clock::SimulatedClock;
use super::coverage::Coverage;
use super::fault::Fault;
use super::place::Place;
use super::plan::Plan;
use super::rng::Rng;
use super::trace::Trace;
use super::wakes::Wakes;
use crate::history::{Action, Client, History, Moment, Note, Operation, Outcome, Remark};

/// Everything that the processes of one simulation share.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) wakes: Wakes,
    calendar: Arc<SimulatedClock>,
    place: Mutex<Arc<Place>>,
    began: Instant,
    calm: AtomicBool,
    /// Whether no process may begin: during an import.
    pub(crate) is_moving: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    trace: Trace,
    coverage: Coverage,
    history: History,
    /// The number of the first operation in the history.
    first: usize,
    seq: u64,
    facts: Facts,
    problems: Vec<String>,
    down_until: Option<Instant>,
    restarts: u64,
}

/// What clients were told, for the accounts at the end.
#[derive(Debug, Default, Clone)]
pub(crate) struct Facts {
    /// For each kind of effect: the names of those requested, and whether they were acknowledged.
    pub(crate) asked: BTreeMap<&'static str, BTreeMap<String, bool>>,
    /// For each kind of effect and name: the times that it happened outside of the store.
    pub(crate) effects: BTreeMap<(&'static str, String), u64>,
    /// For each kind and name: the first answer. A different one is a problem.
    pub(crate) answers: BTreeMap<(&'static str, String), String>,
    /// The targets that an operator reset.
    pub(crate) reset: BTreeSet<(String, String)>,
    /// The targets at which an operator asked for events to be skipped.
    pub(crate) skips: BTreeSet<(String, String)>,
    /// The subjects whose erasure began, and whether it has ended.
    pub(crate) erased: BTreeMap<String, bool>,
    /// The draws of the rate limit: when everything will be replenished, the units, and a moment
    /// after the draw.
    pub(crate) drawn: BTreeMap<i64, (u32, i64)>,
    /// For each follower: the positions and streams of the events that it got, in order.
    pub(crate) followed: BTreeMap<String, Vec<(u64, String)>>,
    /// For each set of books: the events that the archive took, by version.
    pub(crate) archived: BTreeMap<String, BTreeMap<u64, String>>,
}

impl World {
    pub(crate) async fn new(plan: Plan) -> Arc<Self> {
        let calendar = Arc::new(SimulatedClock::new());
        let mut state = State::default();
        let place = Place::new(0, &plan, &calendar, &mut state.coverage).await;
        Arc::new(Self {
            wakes: Wakes::new(Rng::seeded(plan.seed).fork(2)),
            calendar,
            place: Mutex::new(Arc::new(place)),
            began: Instant::now(),
            calm: AtomicBool::new(false),
            is_moving: AtomicBool::new(false),
            state: Mutex::new(state),
            plan,
        })
    }

    /// Where all data is now.
    pub(crate) fn place(&self) -> Arc<Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins another store, and another history; its time is not before that of the one before.
    pub(crate) async fn begin_era(&self) {
        let before = self.place();
        let behind = before.now().since(self.calendar.wall());
        self.calendar.jump(i64::try_from(behind.as_secs()).unwrap_or(0) + 1);
        let mut coverage = Coverage::default();
        let place = Place::new(before.era + 1, &self.plan, &self.calendar, &mut coverage).await;
        self.lock().coverage.add(&coverage);
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(place);
    }

    /// The virtual time since the beginning.
    pub(crate) fn time(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether the faults are over.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm.load(Ordering::Relaxed)
    }

    /// Ends the faults.
    pub(crate) fn calm_down(&self) {
        self.calm.store(true, Ordering::Relaxed);
        self.remark("world", Note::Calm);
    }

    /// A moment, in the order of all moments.
    pub(crate) fn moment(&self) -> Moment {
        let at = Some(self.place().now().micros());
        let mut state = self.lock();
        state.seq += 1;
        Moment { seq: state.seq, at }
    }

    /// Records what happened besides calls of the store.
    pub(crate) fn remark(&self, process: &str, note: Note) {
        let moment = self.moment();
        let client = Client { process: process.to_owned(), number: 0 };
        let time = self.time();
        let mut state = self.lock();
        state.trace.text(process);
        state.trace.number(u64::try_from(time.as_micros()).unwrap_or(0));
        if let Note::Process(what) = &note {
            state.trace.text(what);
        }
        state.history.remarks.push(Remark { client, moment, note });
    }

    /// Records a call that begins, and returns its number.
    pub(crate) fn begin(&self, client: Client, action: Action) -> usize {
        let invoked = self.moment();
        let mut state = self.lock();
        let outcome = Outcome::Unknown("the process died".to_owned());
        state.history.operations.push(Operation {
            client,
            invoked,
            returned: None,
            action,
            outcome,
        });
        state.first + state.history.operations.len() - 1
    }

    /// Records the end of a call.
    pub(crate) fn end(&self, number: usize, outcome: Outcome) {
        let returned = self.moment();
        let mut state = self.lock();
        let nth = number.checked_sub(state.first);
        if let Some(operation) = nth.and_then(|nth| state.history.operations.get_mut(nth)) {
            operation.returned = Some(returned);
            operation.outcome = outcome;
        }
    }

    /// Adds to the trace.
    pub(crate) fn trace(&self, add: impl FnOnce(&mut Trace)) {
        let time = u64::try_from(self.time().as_micros()).unwrap_or(0);
        let trace = &mut self.lock().trace;
        trace.number(time);
        add(trace);
    }

    /// Counts a fault, and records it.
    pub(crate) fn fault(&self, process: &str, fault: Fault, detail: &str) {
        self.lock().coverage.fault(fault);
        self.remark(process, Note::Process(format!("{} {detail}", fault.name())));
    }

    /// Counts a fault that is too frequent to be recorded.
    pub(crate) fn small_fault(&self, fault: Fault) {
        self.lock().coverage.fault(fault);
    }

    /// Counts a condition that should hold sometimes.
    pub(crate) fn sometimes(&self, condition: &'static str) {
        self.lock().coverage.sometimes(condition);
    }

    /// Something that must not have happened.
    pub(crate) fn problem(&self, problem: impl Into<String>) {
        let problem = problem.into();
        self.remark("world", Note::Process(format!("PROBLEM {problem}")));
        self.lock().problems.push(problem);
    }

    /// A client is about to ask for something of this name, once.
    pub(crate) fn asks(&self, kind: &'static str, name: &str) {
        self.lock().facts.asked.entry(kind).or_default().entry(name.to_owned()).or_default();
    }

    /// It was told that this was done.
    pub(crate) fn told(&self, kind: &'static str, name: &str) {
        self.lock().facts.asked.entry(kind).or_default().insert(name.to_owned(), true);
    }

    /// The first answer to a question that has only one.
    pub(crate) fn answer(&self, kind: &'static str, name: &str, answer: &str) {
        let mut state = self.lock();
        let first = state.facts.answers.entry((kind, name.to_owned()));
        let first = first.or_insert_with(|| answer.to_owned());
        if first != answer {
            let problem = format!("{kind} {name:?} was answered {first:?}, and then {answer:?}");
            drop(state);
            self.problem(problem);
        }
    }

    /// An effect outside of the store.
    pub(crate) fn effect(&self, kind: &'static str, name: &str) -> u64 {
        let mut state = self.lock();
        let count = state.facts.effects.entry((kind, name.to_owned())).or_default();
        *count += 1;
        *count
    }

    /// Changes the facts.
    pub(crate) fn facts<T>(&self, with: impl FnOnce(&mut Facts) -> T) -> T {
        with(&mut self.lock().facts)
    }

    /// The store restarts, and is down for a while.
    pub(crate) async fn restart(&self, length: Duration, how: Fault) {
        let place = self.place();
        if let Some(server) = &place.server {
            return server.restart().await;
        }
        match (&place.file, how) {
            (Some(file), Fault::Restore) => file.restore(),
            (Some(file), Fault::PowerCut) => file.lose_power(length.as_millis().is_multiple_of(2)),
            (Some(file), _) => file.restart(),
            (None, _) => {}
        }
        let mut state = self.lock();
        state.restarts += 1;
        state.down_until = Some(Instant::now() + length);
    }

    /// The number of restarts, and whether the store is down.
    pub(crate) fn availability(&self) -> (u64, bool) {
        let state = self.lock();
        (state.restarts, state.down_until.is_some_and(|until| Instant::now() < until))
    }

    /// Lets the calendar jump. All clocks see the time before the jump.
    pub(crate) async fn jump(&self, seconds: i64) {
        let place = self.place();
        let _before = (place.now(), place.base.now().await);
        self.calendar.jump(seconds);
        let _after = (place.now(), place.base.now().await);
    }

    /// The history since the last call.
    pub(crate) fn take_history(&self) -> History {
        let mut state = self.lock();
        let mut history = std::mem::take(&mut state.history);
        state.first += history.operations.len();
        history.sort();
        history
    }

    /// What the simulation comes to: the hash and the number of everything that happened, what was
    /// reached, and what must not have happened.
    pub(crate) fn take(&self) -> (u64, u64, Coverage, Vec<String>) {
        let mut state = self.lock();
        let problems = std::mem::take(&mut state.problems);
        (state.trace.hash(), state.trace.length, state.coverage.clone(), problems)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
