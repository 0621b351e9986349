//! Linearizability: is there one order of the operations on an object that a sequential object
//! could have answered alike, and that respects real time?
//!
//! Wing and Gong's search, linearizing each operation just before its return (Lowe, *Testing for
//! linearizability*, 2017), with memoization, one object at a time (linearizability is local). The
//! search keeps every *configuration* that explains the history so far: the state, and which of the
//! operations that have not returned have taken effect. An operation of unknown outcome never
//! returns: it may take effect at any time after its invocation, or never.
//!
//! Linear in the history for objects whose answers carry numbers (a version, a revision, a fence):
//! a number leaves one order. Exponential at worst in the operations that are open at one time:
//! beyond [`MAX_CONFIGURATIONS`] the search forgets which operations of unknown outcome have taken
//! effect, and so lets each of them take effect again. That finds no wrong violation; what it
//! accepts then, it accepts. If that is still too much, it gives up and says so.

pub(super) mod record;
pub(super) mod right;
pub(super) mod stream;

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

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

    /// Whether this operation leaves every state as it is.
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
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Configuration<State> {
    state: State,
    done: Vec<u32>,
}

impl<State> Configuration<State> {
    fn has_done(&self, call: u32) -> bool {
        self.done.binary_search(&call).is_ok()
    }

    fn mark(&mut self, call: u32) {
        if let Err(at) = self.done.binary_search(&call) {
            self.done.insert(at, call);
        }
    }
}

struct Search<'a, O: Object> {
    object: &'a O,
    calls: &'a [Call<O::Op>],
    /// The operations that were invoked and have not returned.
    open: Vec<u32>,
    /// For an operation of unknown outcome: the one before it that is alike, and goes first.
    twin: Vec<Option<u32>>,
    configurations: HashSet<Configuration<O::State>>,
}

/// Judges the operations of one object, in any order.
pub(super) fn judge<O: Object>(object: &O, calls: &[Call<O::Op>]) -> Verdict {
    let initial = Configuration { state: object.initial(), done: Vec::new() };
    let mut search = Search {
        object,
        calls,
        open: Vec::new(),
        twin: vec![None; calls.len()],
        configurations: HashSet::from([initial]),
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
        if self.op(call).returned.is_none() {
            let is_twin = |other: &&u32| {
                let other = self.op(**other);
                other.returned.is_none() && other.op == self.op(call).op
            };
            self.twin[call as usize] = self.open.iter().rev().find(is_twin).copied();
        }
        self.open.push(call);
        let configurations = std::mem::take(&mut self.configurations);
        self.configurations =
            configurations.into_iter().map(|one| self.absorb_one(one, call)).collect();
    }

    fn op(&self, call: u32) -> &Call<O::Op> {
        &self.calls[call as usize]
    }

    /// Lets the operation take effect by its return, in every configuration where it can.
    fn complete(&mut self, call: u32) -> Result<(), Verdict> {
        let before: Vec<_> = self.configurations.drain().collect();
        let after = self.after(call, &before).or_else(|| {
            let simpler: HashSet<_> = before.iter().map(|one| self.forget_unknown(one)).collect();
            self.after(call, &simpler.into_iter().collect::<Vec<_>>())
        });
        match after {
            None => return Err(Verdict::Undecided),
            Some(after) if after.is_empty() => {
                return Err(Verdict::Not(self.story(call, &before)));
            }
            Some(after) => self.configurations = after,
        }
        self.open.retain(|open| *open != call);
        Ok(())
    }

    /// The configurations after the return, or none if there are too many.
    fn after(
        &self,
        call: u32,
        before: &[Configuration<O::State>],
    ) -> Option<HashSet<Configuration<O::State>>> {
        let mut after = HashSet::new();
        let mut seen: HashSet<_> = before.iter().map(|one| self.absorb(one.clone())).collect();
        let mut work: Vec<_> = seen.iter().cloned().collect();
        while let Some(mut configuration) = work.pop() {
            if configuration.has_done(call) {
                configuration.done.retain(|done| *done != call);
                after.insert(configuration);
                continue;
            }
            for next in self.expand(&configuration, call) {
                if seen.insert(next.clone()) {
                    work.push(next);
                }
            }
            if seen.len() > MAX_CONFIGURATIONS {
                return None;
            }
        }
        Some(after)
    }

    fn forget_unknown(&self, one: &Configuration<O::State>) -> Configuration<O::State> {
        let returns = |call: &&u32| self.op(**call).returned.is_some();
        let done = one.done.iter().filter(returns).copied().collect();
        Configuration { state: one.state.clone(), done }
    }

    /// The configurations after one more open operation, without those in which the one that
    /// returns could never take effect.
    fn expand(
        &self,
        from: &Configuration<O::State>,
        returning: u32,
    ) -> Vec<Configuration<O::State>> {
        let (mut next, mut found) = (Vec::new(), Vec::new());
        for call in self.open.iter().copied().filter(|call| !from.has_done(*call)) {
            if self.twin[call as usize].is_some_and(|twin| !from.has_done(twin)) {
                continue;
            }
            self.object.step(&from.state, &self.op(call).op, &mut next);
            let target = &self.op(returning).op;
            let states = next
                .drain(..)
                .filter(|state| call == returning || !self.object.is_too_late(state, target));
            found.extend(states.map(|state| {
                let mut one = Configuration { state, done: from.done.clone() };
                one.mark(call);
                self.absorb(one)
            }));
        }
        found
    }

    /// Lets all open reads take effect that this state explains: that is never worse. A write that
    /// happens to leave this state as it is may still be needed later.
    fn absorb(&self, configuration: Configuration<O::State>) -> Configuration<O::State> {
        self.open.iter().fold(configuration, |one, call| self.absorb_one(one, *call))
    }

    fn absorb_one(&self, mut one: Configuration<O::State>, call: u32) -> Configuration<O::State> {
        if self.object.is_read(&self.op(call).op) && !one.has_done(call) {
            let mut next = Vec::new();
            self.object.step(&one.state, &self.op(call).op, &mut next);
            if next == [one.state.clone()] {
                one.mark(call);
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
