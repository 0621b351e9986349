//! The world of a simulation: the one store, its calendar, the plan, and the record of everything
//! that happened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidelock::store::{MemoryStore, Store, StoreClock};
use tidelock_test_stage::Stingy;
use tokio::time::Instant;

use super::clock::SimulatedClock;
use super::coverage::Coverage;
use super::fault::Fault;
use super::file_store::FileStore;
use super::mutants;
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
    pub(crate) calendar: Arc<SimulatedClock>,
    /// The store as processes reach it, with the mutant's defect and short pages.
    pub(crate) store: Arc<dyn Store>,
    /// The store itself, for the audit.
    pub(crate) base: Arc<dyn Store>,
    clock: StoreClock,
    /// The store, if it is on a file.
    file: Option<Arc<FileStore>>,
    began: Instant,
    calm: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    trace: Trace,
    coverage: Coverage,
    history: History,
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
    /// For each follower: the positions and streams of the events that it got, in order.
    pub(crate) followed: BTreeMap<String, Vec<(u64, String)>>,
    /// For each set of books: the events that the archive took, by version.
    pub(crate) archived: BTreeMap<String, BTreeMap<u64, String>>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<Self> {
        let calendar = Arc::new(SimulatedClock::new());
        let file = plan.on_file.then(|| Arc::new(FileStore::new(calendar.clone())));
        let base: Arc<dyn Store> = match &file {
            Some(file) => file.clone(),
            None => Arc::new(MemoryStore::with_clock(calendar.clone())),
        };
        let mut store = base.clone();
        let mut state = State::default();
        if Rng::seeded(plan.seed).fork(1).happens(plan.often(Fault::ShortPages)) {
            store = Stingy::over(store, plan.seed);
            state.coverage.fault(Fault::ShortPages);
        }
        let store = mutants::over(store, plan.mutant, plan.seed);
        Arc::new(Self {
            wakes: Wakes::new(Rng::seeded(plan.seed).fork(2)),
            clock: StoreClock::new(calendar.clone()),
            file,
            calendar,
            store,
            base,
            began: Instant::now(),
            calm: AtomicBool::new(false),
            state: Mutex::new(state),
            plan,
        })
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
        let now = self.file.as_ref().map_or_else(|| self.clock.now(), |file| file.time());
        let at = Some(now.micros());
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
        state.history.operations.len() - 1
    }

    /// Records the end of a call.
    pub(crate) fn end(&self, number: usize, outcome: Outcome) {
        let returned = self.moment();
        let operation = &mut self.lock().history.operations[number];
        operation.returned = Some(returned);
        operation.outcome = outcome;
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
    pub(crate) fn restart(&self, length: Duration, how: Fault) {
        match (&self.file, how) {
            (Some(file), Fault::Restore) => file.restore(),
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
        let _before = (self.clock.now(), self.base.now().await);
        self.calendar.jump(seconds);
        let _after = (self.clock.now(), self.base.now().await);
    }

    /// What the simulation comes to.
    pub(crate) fn take(&self) -> (u64, u64, Coverage, History, Vec<String>) {
        let mut state = self.lock();
        let mut history = std::mem::take(&mut state.history);
        history.sort();
        let problems = std::mem::take(&mut state.problems);
        (state.trace.hash(), state.trace.length, state.coverage.clone(), history, problems)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
