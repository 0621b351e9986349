//! Linearizability: is there one order of the operations on an object that a sequential object
//! could have answered alike, and that respects real time?
//!
//! Wing and Gong's search, linearizing each operation just before its return (Lowe, *Testing for
//! linearizability*, 2017), with memoization, one object at a time (linearizability is local). The
//! search keeps every *configuration* that explains the history so far: the state, and which of the
//! operations that have not returned have taken effect. An operation of unknown outcome never
//! returns: it may take effect at any time after its invocation, or never.
//!
//! Of two configurations that differ only in the operations of unknown outcome, one that has used
//! fewer of them can do everything that the other can, so the other is dropped: that decides the
//! same, and without it each operation that was overwritten would double the configurations.
//!
//! Linear in the history for objects whose answers carry numbers (a version, a revision, a fence):
//! a number leaves one order. Exponential at worst in the operations that are open at one time:
//! beyond [`MAX_CONFIGURATIONS`] the search forgets which operations of unknown outcome have taken
//! effect, counts them only, and so lets one take effect in the place of another. That finds no
//! wrong violation; what it accepts then, it accepts. If that is still too much, it gives up and
//! says so. The bound counts work and no time, so that a history is decided alike on every machine.

pub(super) mod record;
pub(super) mod right;
pub(super) mod stream;

use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash};

/// The most configurations that are looked at for one return.
pub const MAX_CONFIGURATIONS: usize = 256;

/// A sequential object.
pub(super) trait Object {
    /// An operation, with its answer.
    type Op: Debug + PartialEq;
    /// A state of the object.
    type State: Clone + Debug + Eq + Hash;

    /// The state before the first operation.
    fn initial(&self) -> Self::State;

    /// Adds the states in which this operation can leave the object, if it is answered as it was.
    fn step(&self, state: &Self::State, op: &Self::Op, next: &mut Vec<Self::State>);

    /// Whether this operation changes nothing.
    fn is_read(&self, op: &Self::Op) -> bool;

    /// Whether this operation can never take effect in this state or a later one: the number that
    /// it was answered is used up.
    fn is_too_late(&self, state: &Self::State, op: &Self::Op) -> bool;
}

/// An operation on one object.
#[derive(Debug)]
pub(super) struct Call<Op> {
    /// A moment before it took effect.
    pub(super) invoked: u64,
    /// A moment after it took effect; none if its outcome is unknown.
    pub(super) returned: Option<u64>,
    /// What was asked and answered.
    pub(super) op: Op,
    /// A name for explanations.
    pub(super) name: String,
}

/// Whether a history of one object is linearizable.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Linearizable,
    Not(String),
    Undecided,
}

/// A state, and the open operations that have taken effect, sorted.
#[derive(Debug, Clone)]
struct Configuration<State> {
    state: State,
    /// Those that return.
    done: Vec<u32>,
    /// Those of unknown outcome.
    used: Vec<u32>,
}

impl<State> Configuration<State> {
    fn has_done(&self, call: u32) -> bool {
        self.done.binary_search(&call).is_ok()
    }

    fn has_used(&self, call: u32) -> bool {
        self.used.binary_search(&call).is_ok()
    }
}

/// What a configuration knows of the operations of unknown outcome that have taken effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// Which they are.
    Named,
    /// How many they are, since the last return.
    Counted,
}

fn mark(calls: &mut Vec<u32>, call: u32) {
    if let Err(at) = calls.binary_search(&call) {
        calls.insert(at, call);
    }
}

/// Hashes alike in every process, so that a history is judged alike.
type SameOrder = BuildHasherDefault<DefaultHasher>;

/// Configurations, none of which can do everything that another one can.
#[derive(Debug)]
struct Frontier<State> {
    /// By state and the operations done that return: the least sets of operations used.
    used: HashMap<(State, Vec<u32>), Vec<Vec<u32>>, SameOrder>,
    len: usize,
}

impl<State> Default for Frontier<State> {
    fn default() -> Self {
        Self { used: HashMap::default(), len: 0 }
    }
}

impl<State: Clone + Eq + Hash> Frontier<State> {
    /// Adds a configuration in the place of those that can do less, unless one can do as much.
    fn admit(&mut self, one: &Configuration<State>) -> bool {
        let has = |all: &[u32], some: &[u32]| some.iter().all(|n| all.binary_search(n).is_ok());
        let others = self.used.entry((one.state.clone(), one.done.clone())).or_default();
        if others.iter().any(|other| has(&one.used, other)) {
            return false;
        }
        self.len -= others.len();
        others.retain(|other| !has(other, &one.used));
        others.push(one.used.clone());
        self.len += others.len();
        true
    }

    fn iter(&self) -> impl Iterator<Item = Configuration<State>> {
        self.used.iter().flat_map(|((state, done), all)| {
            all.iter().map(|used| Configuration {
                state: state.clone(),
                done: done.clone(),
                used: used.clone(),
            })
        })
    }
}

struct Search<'a, O: Object> {
    object: &'a O,
    calls: &'a [Call<O::Op>],
    /// The operations that were invoked and have not returned.
    open: Vec<u32>,
    /// How many of them are of unknown outcome.
    unknown: usize,
    /// For an operation of unknown outcome: the one before it that is alike, and goes first.
    twin: Vec<Option<u32>>,
    configurations: Vec<Configuration<O::State>>,
}

/// Judges the operations of one object, in any order.
pub(super) fn judge<O: Object>(object: &O, calls: &[Call<O::Op>]) -> Verdict {
    let initial = Configuration { state: object.initial(), done: Vec::new(), used: Vec::new() };
    let mut search = Search {
        object,
        calls,
        open: Vec::new(),
        unknown: 0,
        twin: vec![None; calls.len()],
        configurations: vec![initial],
    };
    for (_, is_return, call) in moments(calls) {
        if !is_return {
            search.invoke(call);
        } else if let Err(verdict) = search.complete(call) {
            return verdict;
        }
    }
    Verdict::Linearizable
}

/// The invocations and returns in real time; of one moment, the invocations first.
fn moments<Op>(calls: &[Call<Op>]) -> Vec<(u64, bool, u32)> {
    let invoked = (0..).zip(calls).map(|(n, call)| (call.invoked, false, n));
    let returned = (0..).zip(calls).filter_map(|(n, call)| Some((call.returned?, true, n)));
    let mut moments: Vec<_> = invoked.chain(returned).collect();
    moments.sort_unstable();
    moments
}

impl<O: Object> Search<'_, O> {
    fn invoke(&mut self, call: u32) {
        if self.op(call).returned.is_none() && self.object.is_read(&self.op(call).op) {
            // Whether it happened changes nothing.
            return;
        }
        if self.op(call).returned.is_none() {
            self.unknown += 1;
            let is_twin = |other: &&u32| {
                let other = self.op(**other);
                other.returned.is_none() && other.op == self.op(call).op
            };
            self.twin[call as usize] = self.open.iter().rev().find(is_twin).copied();
        }
        self.open.push(call);
        let configurations = std::mem::take(&mut self.configurations);
        self.configurations =
            configurations.into_iter().map(|one| self.absorb(one, &[call])).collect();
    }

    fn op(&self, call: u32) -> &Call<O::Op> {
        &self.calls[call as usize]
    }

    /// Lets the operation take effect by its return, in every configuration where it can.
    fn complete(&mut self, call: u32) -> Result<(), Verdict> {
        let before = std::mem::take(&mut self.configurations);
        let after = self.after(call, &before, Unknown::Named);
        let after = after.or_else(|| self.after(call, &before, Unknown::Counted));
        let Some(after) = after else { return Err(Verdict::Undecided) };
        if after.len == 0 {
            return Err(Verdict::Not(self.story(call, &before)));
        }
        self.configurations = after.iter().collect();
        self.open.retain(|open| *open != call);
        Ok(())
    }

    /// The configurations after the return, or none if there are too many.
    fn after(
        &self,
        call: u32,
        before: &[Configuration<O::State>],
        unknown: Unknown,
    ) -> Option<Frontier<O::State>> {
        let (mut seen, mut after) = (Frontier::default(), Frontier::default());
        let mut work = VecDeque::new();
        let mut add = |one: Configuration<O::State>, work: &mut VecDeque<_>| {
            if seen.admit(&one) {
                work.push_back(one);
            }
            seen.len <= MAX_CONFIGURATIONS
        };
        for one in before {
            let mut one = self.absorb(one.clone(), &self.open);
            if unknown == Unknown::Counted {
                one.used.clear();
            }
            add(one, &mut work);
        }
        // Those that use the fewest operations come first.
        while let Some(mut one) = work.pop_front() {
            if one.has_done(call) {
                one.done.retain(|done| *done != call);
                if unknown == Unknown::Counted {
                    one.used.clear();
                }
                after.admit(&one);
                continue;
            }
            for next in self.expand(&one, call, unknown) {
                if !add(next, &mut work) {
                    return None;
                }
            }
        }
        Some(after)
    }

    /// The configurations after one more open operation, without those in which the one that
    /// returns could never take effect.
    fn expand(
        &self,
        from: &Configuration<O::State>,
        returning: u32,
        unknown: Unknown,
    ) -> Vec<Configuration<O::State>> {
        let (mut next, mut found) = (Vec::new(), Vec::new());
        for call in self.open.iter().copied().filter(|call| self.is_left(*call, from, unknown)) {
            self.object.step(&from.state, &self.op(call).op, &mut next);
            let target = &self.op(returning).op;
            let states = next
                .drain(..)
                .filter(|state| call == returning || !self.object.is_too_late(state, target));
            found.extend(states.map(|state| {
                let mut one = Configuration { state, ..from.clone() };
                match (self.op(call).returned, unknown) {
                    (Some(_), _) => mark(&mut one.done, call),
                    (None, Unknown::Named) => mark(&mut one.used, call),
                    (None, Unknown::Counted) => one.used.push(from.used.len() as u32),
                }
                self.absorb(one, &self.open)
            }));
        }
        found
    }

    /// Whether an open operation can still take effect after this configuration.
    fn is_left(&self, call: u32, from: &Configuration<O::State>, unknown: Unknown) -> bool {
        match (self.op(call).returned, unknown) {
            (Some(_), _) => !from.has_done(call),
            (None, Unknown::Named) => {
                let is_next = |twin| from.has_used(twin);
                !from.has_used(call) && self.twin[call as usize].is_none_or(is_next)
            }
            (None, Unknown::Counted) => from.used.len() < self.unknown,
        }
    }

    /// Lets those of these reads take effect that this state explains: that is never worse. A write
    /// that happens to leave this state as it is may still be needed later.
    fn absorb(&self, mut one: Configuration<O::State>, open: &[u32]) -> Configuration<O::State> {
        let mut next = Vec::new();
        for call in open {
            if self.object.is_read(&self.op(*call).op) && !one.has_done(*call) {
                self.object.step(&one.state, &self.op(*call).op, &mut next);
                if !next.is_empty() && next.iter().all(|state| *state == one.state) {
                    mark(&mut one.done, *call);
                }
                next.clear();
            }
        }
        one
    }

    /// The last operation that nothing explains, and what could have been before it.
    fn story(&self, call: u32, before: &[Configuration<O::State>]) -> String {
        let states: Vec<String> =
            before.iter().take(3).map(|one| format!("{:?}", one.state)).collect();
        let open = self.open.iter().filter(|open| **open != call).take(6);
        let open: Vec<&str> = open.map(|open| self.op(*open).name.as_str()).collect();
        let Call { name, op, .. } = self.op(call);
        format!(
            "no order explains {name} ({op:?}); possible states before it: {}; open at its return: {}",
            states.join(" or "),
            if open.is_empty() { "nothing".to_owned() } else { open.join("; ") },
        )
    }
}

/// Judges an object and reports it by its name.
pub(super) fn check<O: Object>(
    object: &O,
    kind: &str,
    name: &str,
    calls: &[Call<O::Op>],
    report: &mut super::Report,
) {
    match judge(object, calls) {
        Verdict::Linearizable => {}
        Verdict::Not(why) => report.add("not linearizable", format!("{kind} {name}: {why}")),
        Verdict::Undecided => report.undecided.push(format!(
            "whether {kind} {name} is linearizable: too many operations are open at one time"
        )),
    }
}
