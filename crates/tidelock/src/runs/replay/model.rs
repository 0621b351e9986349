//! Exhaustive model check of the replay core: small programs, every order of events within bounds,
//! crashes included.
//!
//! A program is interpreted against [`Replay`] without futures. The world has the stored history,
//! the commit in flight, and the effects that happened. From every state, each enabled event leads
//! to another: a commit lands or is refused, an effect is done, a signal, a cancellation or a time
//! comes, a child ends, the process crashes. The search is breadth-first with a visited set.
//!
//! Checked in every state: the unchanged program never parks and never gets stuck (RUN-4), a
//! recorded step is not done again (RUN-2), at most once is at most once (RUN-14), staged writes
//! and child starts land once (RUN-17, RUN-23), a signal is received once (RUN-8), results are
//! delivered in the order of the activation before (RUN-5), no effect begins before the results
//! that it depends on are stored, and the folded history is the live state. Faults that are
//! injected into the core or the interpreter must be found.
//!
//! Not among the programs: a combinator that returns before it has polled all its branches, such as
//! `select!`. A branch that is not requested again leaves its record behind, which a replay cannot
//! tell from a change of code.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use tidelock_store::{RawJson, Result, Timestamp};

use super::operation::operation_of;
use super::{
    Batch, Durability, Encoded, IdleAction, Kind, On, OpId, Phase, Progress, Replay, Wait, Wake,
    Woken,
};
use crate::runs::history::{
    ChildEnded, ChildStarted, Entry, Fired, Intent, Interrupted, Interruptible, Received,
    RunOutcome, Signalled, StepDone, StepFailed, TimedOut, Timer, Value, Waiting, Why,
};
use crate::runs::names::StepName;
use crate::runs::{RunId, keys};

impl Encoded for Entry {
    fn encode(entry: &Entry) -> Result<Self> {
        Ok(entry.clone())
    }

    fn bytes(&self) -> usize {
        0
    }
}

/// A deliberate error, which the check has to find.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fault {
    #[default]
    None,
    /// An end that the function has set aside blocks the others.
    NoPassOver,
    /// The place of an entry whose commit failed stays in the order.
    NoVoid,
    /// Results are delivered in any order.
    AnyOrder,
    /// An effect begins before earlier entries are durable.
    Unwritten,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaf {
    Step,
    AtMostOnce,
    Transact,
    Sleep,
    Signal,
    Value,
    Child,
}

const LEAVES: [Leaf; 7] = [
    Leaf::Step,
    Leaf::AtMostOnce,
    Leaf::Transact,
    Leaf::Sleep,
    Leaf::Signal,
    Leaf::Value,
    Leaf::Child,
];

/// How far the interpreter is with an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Start,
    CatchUp,
    /// Waits until entries up to this number are durable; with so many results delivered before.
    Written(u64, usize),
    Running,
    Landing,
    Waiting,
    Result,
    Done,
}

#[derive(Debug, Clone)]
struct Task {
    leaf: Leaf,
    name: StepName,
    op: Option<OpId>,
    at: At,
}

/// A program, and how far it has come.
#[derive(Debug, Clone)]
enum Node {
    Leaf(Task),
    /// One after the other.
    Seq(Vec<Node>, usize),
    /// Until all are ready.
    Join(Vec<Node>, Vec<bool>),
    /// `ctx.race` and `ctx.select`: until one is ready; the winner is recorded.
    Race(StepName, Option<Option<usize>>, Vec<Node>, Vec<bool>),
    /// The first is polled once, then kept aside until the second is ready.
    Hold(Vec<Node>, usize),
}

fn leaf(leaf: Leaf, name: &str) -> Node {
    Node::Leaf(Task { leaf, name: step(name), op: None, at: At::Start })
}

fn step(name: &str) -> StepName {
    StepName::new(name).unwrap()
}

fn pair(one: Leaf, other: Leaf) -> Vec<Node> {
    vec![leaf(one, "a"), leaf(other, "b")]
}

/// The programs with two leaves, and a step after them.
fn programs() -> Vec<Node> {
    let mut programs = Vec::new();
    for one in LEAVES {
        for other in LEAVES {
            let both = || pair(one, other);
            let shapes = [
                Node::Join(both(), vec![false; 2]),
                Node::Race(step("race"), None, both(), vec![false; 2]),
                Node::Hold(both(), 0),
            ];
            let then = |shape| Node::Seq(vec![shape, leaf(Leaf::Step, "after")], 0);
            programs.extend(shapes.map(then));
            programs.push(Node::Seq(both(), 0));
        }
    }
    programs.extend(selects());
    programs
}

/// The leaves of selects: what may be awaited in one. Three of them have many more orders of events
/// than two.
const SELECTED: [Leaf; 4] = [Leaf::Step, Leaf::Sleep, Leaf::Signal, Leaf::Child];

/// The programs that select from three different leaves, and a step after them.
fn selects() -> impl Iterator<Item = Node> {
    let different = |leaves: &[Leaf; 3]| {
        leaves[0] != leaves[1] && leaves[1] != leaves[2] && leaves[0] != leaves[2]
    };
    let all = SELECTED.into_iter().flat_map(|one| {
        SELECTED.into_iter().flat_map(move |two| SELECTED.map(|three| [one, two, three]))
    });
    all.filter(different).map(|[one, two, three]| {
        let leaves = vec![leaf(one, "a"), leaf(two, "b"), leaf(three, "c")];
        let select = Node::Race(step("select"), None, leaves, vec![false; 3]);
        Node::Seq(vec![select, leaf(Leaf::Step, "after")], 0)
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    Suspended,
    Returned,
}

#[derive(Debug, Clone)]
struct World {
    fault: Fault,
    program: Node,
    node: Node,
    replay: Replay<Entry>,
    life: Life,
    history: Vec<Entry>,
    flight: Option<Batch<Entry>>,
    /// Answers to staged entries: whether they were committed.
    replies: BTreeMap<OpId, bool>,
    /// Effects in flight, and those that are done and not seen yet.
    running: BTreeSet<StepName>,
    done: BTreeSet<StepName>,
    now: Timestamp,
    /// How often each effect happened.
    effects: BTreeMap<StepName, u32>,
    delivered: Vec<(StepName, String)>,
    /// What an earlier activation delivered and recorded.
    before: Vec<(StepName, String)>,
    signals: u32,
    cancels: u32,
    refusals: u32,
    crashes: u32,
    /// Something outside of the replay wakes the function.
    woken: bool,
}

/// An event.
#[derive(Debug, Clone)]
enum Event {
    Lands,
    Refused,
    Done(StepName),
    Signal,
    Cancel,
    Time,
    ChildEnds(OpId),
    /// A child ends while the run is suspended, which wakes it.
    Resumes,
    Crash,
}

/// How often each may come.
const SIGNALS: u32 = 2;
const CANCELS: u32 = 1;
const REFUSALS: u32 = 1;
const CRASHES: u32 = 1;

fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros).unwrap()
}

/// Far enough away to suspend the run.
fn later() -> Timestamp {
    time(100_000_000)
}

fn json() -> RawJson {
    RawJson::new(&7).unwrap()
}

impl World {
    fn new(program: &Node, fault: Fault) -> Self {
        let mut world = Self {
            fault,
            program: program.clone(),
            node: program.clone(),
            replay: Replay::default(),
            life: Life::Running,
            history: Vec::new(),
            flight: None,
            replies: BTreeMap::new(),
            running: BTreeSet::new(),
            done: BTreeSet::new(),
            now: time(0),
            effects: BTreeMap::new(),
            delivered: Vec::new(),
            before: Vec::new(),
            signals: 0,
            cancels: 0,
            refusals: 0,
            crashes: 0,
            woken: true,
        };
        world.activate();
        world
    }

    /// A new activation, from the stored history.
    fn activate(&mut self) {
        let ended = self.ended();
        let delivered = std::mem::take(&mut self.delivered);
        if delivered.len() >= self.before.len() {
            self.before = delivered.into_iter().filter(|(name, _)| ended.contains(name)).collect();
        }
        self.replay = Replay { fault: self.fault, ..Replay::default() };
        self.history.iter().for_each(|entry| self.replay.fold(entry.clone()).unwrap());
        self.replay.start();
        (self.node, self.life, self.flight) = (self.program.clone(), Life::Running, None);
        (self.replies, self.running) = (BTreeMap::new(), BTreeSet::new());
        (self.done, self.woken) = (BTreeSet::new(), true);
    }

    /// The operations whose end is stored.
    fn ended(&self) -> BTreeSet<StepName> {
        let operations = self.history.iter().filter_map(operation_of);
        let ended = operations.filter(|(_, _, end)| end.is_some());
        ended.map(|(name, _, _)| name.clone()).collect()
    }

    /// Lets the function and the driver go on until they need an event.
    fn settle(&mut self) -> Result<(), String> {
        while self.life == Life::Running {
            let woken = std::mem::take(&mut self.woken) | (self.replay.take_wake() != Wake::None);
            if woken {
                let mut node = self.node.clone();
                let ready = node.poll(self)?;
                self.node = node;
                if ready {
                    return self.finish();
                }
                continue;
            }
            if self.flight.is_none() {
                self.flight = self.replay.next_batch();
            }
            if self.flight.is_some() || !self.replay.is_quiet() {
                return Ok(());
            }
            match self.replay.when_idle(None, self.now) {
                IdleAction::Again => {}
                IdleAction::Suspend(_) => {
                    self.history.extend(self.replay.take_rest());
                    self.life = Life::Suspended;
                }
                other => return Err(format!("{other:?}")),
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        if let Some(exit) = self.replay.returned() {
            return Err(format!("{exit:?}"));
        }
        let mut rest = Vec::new();
        rest.extend(self.flight.take().into_iter().flat_map(|batch| batch.entries));
        rest.extend(self.replay.take_rest());
        self.history.extend(rest);
        self.life = Life::Returned;
        Ok(())
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if self.life == Life::Returned {
            return events;
        }
        if let Some(batch) = &self.flight {
            events.push(Event::Lands);
            if batch.landing.is_some() && self.refusals < REFUSALS {
                events.push(Event::Refused);
            }
        }
        events.extend(self.running.difference(&self.done).cloned().map(Event::Done));
        if self.signals < SIGNALS {
            events.push(Event::Signal);
        }
        if self.cancels < CANCELS {
            events.push(Event::Cancel);
        }
        let timed = self.replay.waits.values().any(|wait| wait.until.is_some());
        if timed && self.now < later() {
            events.push(Event::Time);
        }
        let children = self.replay.open_children();
        match self.life {
            Life::Suspended if !children.is_empty() => events.push(Event::Resumes),
            _ => events.extend(children.into_iter().map(|(op, _)| Event::ChildEnds(op))),
        }
        if self.life == Life::Running && self.crashes < CRASHES {
            events.push(Event::Crash);
        }
        events
    }

    fn apply(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Lands => {
                if let Some(batch) = self.flight.take() {
                    self.land(&batch)?;
                }
            }
            Event::Refused => self.refuse(),
            Event::Done(name) => {
                self.done.insert(name);
                self.woken = true;
            }
            Event::Signal => {
                self.signals += 1;
                self.tell("s", &format!("s-{}", self.signals));
            }
            Event::Cancel => {
                self.cancels += 1;
                self.tell(keys::CANCEL, keys::CANCEL);
            }
            Event::Time => {
                self.now = later();
                self.replay.tick(self.now);
            }
            Event::ChildEnds(op) => self.replay.child_ended(op, RunOutcome::Completed(json())),
            Event::Resumes => {}
            Event::Crash => {
                self.crashes += 1;
                self.life = Life::Suspended;
            }
        }
        if self.life == Life::Suspended {
            self.activate();
        }
        self.settle()?;
        self.check()
    }

    fn land(&mut self, batch: &Batch<Entry>) -> Result<(), String> {
        self.history.extend(batch.entries.iter().cloned());
        if let Some(landing) = &batch.landing {
            self.history.push(landing.entry.clone());
            let name = operation_of(&landing.entry).unwrap().0.clone();
            self.happens(&name, 1)?;
            self.replies.insert(landing.op, true);
            self.woken = true;
        }
        self.replay.committed(batch);
        Ok(())
    }

    fn refuse(&mut self) {
        self.refusals += 1;
        let Some(mut batch) = self.flight.take() else { return };
        if let Some(landing) = batch.landing.take() {
            self.replay.landing_failed(&landing);
            self.replies.insert(landing.op, false);
            self.woken = true;
        }
        match batch.entries.is_empty() {
            true => self.replay.committed(&batch),
            false => self.flight = Some(batch),
        }
    }

    /// A signal is in the history.
    fn tell(&mut self, signal: &str, id: &str) {
        let (signal, id, payload) = (signal.to_owned(), id.to_owned(), json());
        let entry = Entry::from(Signalled { signal, id, payload });
        self.history.push(entry.clone());
        if self.life == Life::Running {
            self.replay.absorb(entry).unwrap();
        }
    }

    /// An effect happens, at most so often.
    fn happens(&mut self, name: &StepName, most: u32) -> Result<(), String> {
        let times = self.effects.entry(name.clone()).or_default();
        *times += 1;
        match *times <= most {
            true => Ok(()),
            false => Err(format!("{name} happened {times} times")),
        }
    }

    fn check(&self) -> Result<(), String> {
        self.check_signals()?;
        let is_reordered = self.delivered.iter().zip(&self.before).any(|(now, then)| now != then);
        if self.is_ordered() && is_reordered {
            return Err(format!("{:?} was delivered as {:?}", self.before, self.delivered));
        }
        let is_written = self.flight.is_none() && self.replay.outbox.is_empty();
        if self.life == Life::Running && is_written {
            let mut folded = Replay::<Entry>::default();
            self.history.iter().for_each(|entry| folded.fold(entry.clone()).unwrap());
            if folded.view() != self.replay.view() {
                return Err(format!("{:?} folds to {:?}", self.replay.view(), folded.view()));
            }
        }
        Ok(())
    }

    /// A signal is received by one wait, unless that was dropped with it; and it is not lost.
    fn check_signals(&self) -> Result<(), String> {
        let mut received = BTreeMap::new();
        for entry in &self.history {
            match entry {
                Entry::Received(entry) => {
                    if let Some(other) = received.insert(&entry.id, &entry.name) {
                        return Err(format!(
                            "{} received {}, as {other} did",
                            entry.name, entry.id
                        ));
                    }
                }
                Entry::Dropped(dropped) => received.retain(|_, by| **by != dropped.name),
                _ => {}
            }
        }
        let waiting = self.replay.inbox.unreceived().len();
        let is_written = self.flight.is_none() && self.replay.outbox.is_empty();
        match is_written && self.life == Life::Running {
            true if waiting + received.len() != self.signals as usize => Err(format!(
                "{} signals came, {waiting} wait and {received:?} were received",
                self.signals
            )),
            _ => Ok(()),
        }
    }

    /// Whether the program takes results as they come. One that keeps an operation aside takes it
    /// later.
    fn is_ordered(&self) -> bool {
        !matches!(&self.program, Node::Seq(nodes, _) if matches!(nodes[0], Node::Hold(..)))
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let replay = &self.replay;
        let state = (
            (&self.node, self.life, &self.history, &self.flight, &self.replies),
            (&self.running, &self.done, self.now, &self.effects, &self.delivered, &self.before),
            (self.signals, self.cancels, self.refusals, self.crashes),
            (&replay.ops, &replay.cursor, &replay.outbox, &replay.waits, &replay.cancel),
        );
        format!("{state:?}").hash(&mut hasher);
        hasher.finish()
    }
}

/// What is recorded of an operation.
type View = BTreeMap<StepName, (Kind, Progress, String, bool)>;

impl Replay<Entry> {
    /// What is recorded of each operation.
    fn view(&self) -> View {
        let recorded = self.ops.iter().filter(|op| {
            !matches!(op.phase, Phase::New | Phase::Removed | Phase::Staged { was_open: false })
        });
        let view = recorded.map(|op| {
            let is_dropped =
                matches!(op.phase, Phase::PastDropped | Phase::Abandoned | Phase::Orphan);
            let end = format!("{:?}", op.end);
            (op.name.clone(), (op.kind, op.progress.clone(), end, is_dropped))
        });
        view.collect()
    }
}

impl Node {
    fn poll(&mut self, world: &mut World) -> Result<bool, String> {
        match self {
            Self::Leaf(task) => task.poll(world),
            Self::Seq(nodes, at) => {
                while let Some(node) = nodes.get_mut(*at) {
                    if !node.poll(world)? {
                        return Ok(false);
                    }
                    *at += 1;
                }
                Ok(true)
            }
            Self::Join(nodes, ready) => {
                for (node, ready) in nodes.iter_mut().zip(&mut *ready) {
                    *ready = *ready || node.poll(world)?;
                }
                Ok(ready.iter().all(|ready| *ready))
            }
            Self::Hold(nodes, at) => {
                if *at == 0 {
                    *at = 1;
                    if nodes[0].poll(world)? {
                        *at = 3;
                    }
                }
                if matches!(*at, 1 | 3) {
                    if !nodes[1].poll(world)? {
                        return Ok(false);
                    }
                    *at += 1;
                }
                Ok(*at == 4 || nodes[0].poll(world)?)
            }
            Self::Race(name, known, nodes, ready) => {
                let winner = match known {
                    Some(winner) => *winner,
                    None => {
                        let winner =
                            world.replay.begin_race(name, nodes.len()).ok_or("used twice")?;
                        *known = Some(winner);
                        winner
                    }
                };
                for at in 0..nodes.len() {
                    ready[at] = ready[at] || nodes[at].poll(world)?;
                    if ready[at] && winner.is_none_or(|winner| winner == at) {
                        if winner.is_none() {
                            world.replay.won(name, at).map_err(|e| e.to_string())?;
                        }
                        for later in &mut nodes[at + 1..] {
                            if world.replay.is_replay() {
                                later.poll(world)?;
                            }
                        }
                        world.replay.end_race(name);
                        nodes.iter_mut().for_each(|node| node.abandon(world));
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    fn abandon(&mut self, world: &mut World) {
        match self {
            Self::Leaf(task) => task.abandon(world),
            Self::Seq(nodes, _)
            | Self::Join(nodes, _)
            | Self::Race(_, _, nodes, _)
            | Self::Hold(nodes, _) => nodes.iter_mut().for_each(|node| node.abandon(world)),
        }
    }
}

impl Task {
    fn kind(&self) -> Kind {
        match self.leaf {
            Leaf::Step | Leaf::AtMostOnce | Leaf::Transact => Kind::Step,
            Leaf::Sleep => Kind::Sleep,
            Leaf::Signal => Kind::Wait,
            Leaf::Value => Kind::Value,
            Leaf::Child => Kind::Child,
        }
    }

    /// What `ctx` does, without futures. Ready when the result is delivered.
    fn poll(&mut self, world: &mut World) -> Result<bool, String> {
        loop {
            let before = self.at;
            match self.at {
                At::Done => return Ok(true),
                At::Start => self.request(world)?,
                At::CatchUp => self.begin(world)?,
                At::Written(number, known) => self.effect(world, number, known)?,
                At::Running => self.finish(world)?,
                At::Landing => self.landed(world),
                At::Waiting => self.wait(world)?,
                At::Result => self.result(world)?,
            }
            if self.at == before {
                return Ok(false);
            }
        }
    }

    fn op(&self) -> OpId {
        self.op.expect("it is requested")
    }

    fn request(&mut self, world: &mut World) -> Result<(), String> {
        let op = world.replay.request(&self.name, self.kind());
        let op = op.ok_or_else(|| format!("{:?}", world.replay.exit))?;
        self.op = Some(op);
        self.at = if world.replay.is_ended(op) { At::Result } else { At::CatchUp };
        Ok(())
    }

    /// Begins the operation, after the replay.
    fn begin(&mut self, world: &mut World) -> Result<(), String> {
        let (op, name) = (self.op(), self.name.clone());
        if !world.replay.is_caught_up(op) {
            return Ok(());
        }
        let progress = world.replay.progress(op);
        let is_open = world.replay.is_recorded(op);
        let (replay, until) = (&mut world.replay, Some(later()));
        match self.leaf {
            Leaf::Value => {
                let value = RawJson::new(&world.crashes).unwrap();
                return self.end(world, Value { name, value }, Durability::Lazy);
            }
            Leaf::Sleep if is_open => self.at = At::Waiting,
            Leaf::Signal if progress.signal.is_some() => self.at = At::Waiting,
            Leaf::Child if is_open => self.at = At::Waiting,
            Leaf::Sleep => {
                replay.note(op, Timer { name, until: later() }).unwrap();
                self.at = At::Waiting;
            }
            Leaf::Signal => {
                replay.note(op, Waiting { name, signal: "s".into(), until }).unwrap();
                self.at = At::Waiting;
            }
            Leaf::AtMostOnce if progress.intent => {
                let (error, why) = (String::new(), Why::UnknownOutcome);
                let failed = StepFailed { name, attempts: 1, error, code: None, why };
                return self.end(world, failed, Durability::Durable);
            }
            _ if replay.is_cancelled() => return self.interrupt(world),
            Leaf::Transact => {
                replay.stage(op, StepDone { name, result: json() }).unwrap();
                self.at = At::Landing;
            }
            Leaf::Child => {
                let run = RunId::new(name.as_str()).unwrap();
                replay.stage(op, ChildStarted { name, run }).unwrap();
                self.at = At::Landing;
            }
            Leaf::Step | Leaf::AtMostOnce => {
                if self.leaf == Leaf::AtMostOnce {
                    replay.note(op, Intent { name }).unwrap();
                }
                self.at = At::Written(replay.newest(), world.delivered.len());
            }
        }
        Ok(())
    }

    fn effect(&mut self, world: &mut World, number: u64, known: usize) -> Result<(), String> {
        if world.fault != Fault::Unwritten && !world.replay.is_written(number) {
            return Ok(());
        }
        let ended = world.ended();
        if ended.contains(&self.name) {
            return Err(format!("{} is recorded, and begins again", self.name));
        }
        if world.delivered[..known].iter().any(|(name, _)| !ended.contains(name)) {
            return Err(format!("{} depends on what is not stored", self.name));
        }
        let most = if self.leaf == Leaf::AtMostOnce { 1 } else { u32::MAX };
        world.happens(&self.name, most)?;
        world.replay.effect(true);
        world.running.insert(self.name.clone());
        self.at = At::Running;
        Ok(())
    }

    fn finish(&mut self, world: &mut World) -> Result<(), String> {
        if !world.done.remove(&self.name) {
            return Ok(());
        }
        world.running.remove(&self.name);
        world.replay.effect(false);
        let done = StepDone { name: self.name.clone(), result: json() };
        self.end(world, done, Durability::Durable)
    }

    fn landed(&mut self, world: &mut World) {
        match (world.replies.remove(&self.op()), self.leaf) {
            (None, _) => {}
            (Some(true), Leaf::Child) => self.at = At::Waiting,
            (Some(true), _) => self.at = At::Result,
            (Some(false), _) => self.at = At::CatchUp,
        }
    }

    fn wait(&mut self, world: &mut World) -> Result<(), String> {
        let (on, until) = match self.leaf {
            Leaf::Signal => (On::Signal("s".into()), Some(later())),
            Leaf::Child => (On::Child(RunId::new(self.name.as_str()).unwrap()), None),
            _ => (On::Time, Some(later())),
        };
        let wait = Wait { on, until, cleanup: false };
        let name = self.name.clone();
        match (world.replay.wait(self.op(), &wait, world.now), self.leaf) {
            (None, _) => Ok(()),
            (Some(Woken::Signal(id)), _) => {
                self.end(world, Received { name, id }, Durability::Lazy)
            }
            (Some(Woken::Child(outcome)), _) => {
                self.end(world, ChildEnded { name, outcome }, Durability::Lazy)
            }
            (Some(Woken::Late), Leaf::Signal) => {
                self.end(world, TimedOut { name }, Durability::Lazy)
            }
            (Some(Woken::Late), _) => self.end(world, Fired { name }, Durability::Lazy),
            _ => self.interrupt(world),
        }
    }

    fn interrupt(&mut self, world: &mut World) -> Result<(), String> {
        let kind = match self.kind() {
            Kind::Sleep => Interruptible::Sleep,
            Kind::Wait => Interruptible::Wait,
            Kind::Child => Interruptible::Child,
            _ => Interruptible::Step,
        };
        self.end(world, Interrupted { name: self.name.clone(), kind }, Durability::Lazy)
    }

    fn end(
        &mut self,
        world: &mut World,
        entry: impl Into<Entry>,
        durability: Durability,
    ) -> Result<(), String> {
        self.at = At::Result;
        world.replay.end(self.op(), entry, durability).map_err(|e| e.to_string())
    }

    fn result(&mut self, world: &mut World) -> Result<(), String> {
        if let Some(end) = world.replay.result(self.op()) {
            world.delivered.push((self.name.clone(), format!("{end:?}")));
            world.replay.abandon(self.op());
            self.at = At::Done;
        }
        Ok(())
    }

    fn abandon(&mut self, world: &mut World) {
        if self.at == At::Running {
            world.replay.effect(false);
            world.running.remove(&self.name);
            world.done.remove(&self.name);
        }
        if let Some(op) = self.op.filter(|_| self.at != At::Done) {
            world.replies.remove(&op);
            world.replay.abandon(op);
            self.at = At::Done;
        }
    }
}

/// Visits every state of a program; returns how many there are, or the first violation with the
/// events that lead to it.
fn explore(program: &Node, fault: Fault) -> Result<usize, String> {
    let mut first = World::new(program, fault);
    first.settle().map_err(|error| format!("{error} at once, in {program:?}"))?;
    let mut visited = HashSet::from([first.key()]);
    let mut queue = VecDeque::from([(first, Vec::new())]);
    while let Some((world, path)) = queue.pop_front() {
        for event in world.events() {
            let (mut next, mut path): (World, Vec<String>) = (world.clone(), path.clone());
            path.push(format!("{event:?}"));
            next.apply(event).map_err(|error| format!("{error} after {path:?}, in {program:?}"))?;
            if visited.insert(next.key()) {
                queue.push_back((next, path));
            }
        }
    }
    Ok(visited.len())
}

/// RUN-2, RUN-4, RUN-5, RUN-8, RUN-14, RUN-17, RUN-23, RUN-57.
#[test]
fn every_order_of_events_keeps_the_promises_of_a_replay() {
    let mut states = 0;
    for program in programs() {
        states += explore(&program, Fault::None).unwrap_or_else(|violation| panic!("{violation}"));
    }
    assert!(states > 10_000, "only {states} states");
}

#[test]
fn every_injected_fault_is_found() {
    for fault in [Fault::NoPassOver, Fault::NoVoid, Fault::AnyOrder, Fault::Unwritten] {
        let found = programs().iter().find_map(|program| explore(program, fault).err());
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
