//! The shared state of all connections of a proxy: the fault, the destination, and the open
//! connections.
//!
//! Every decision is made under one lock, so that a fault applies either to no byte or to every
//! byte.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::proxy::link::{Direction, Wires};

/// The state of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Healthy,
    /// Requests pass, replies are dropped.
    Swallowing,
    /// Nothing passes.
    Stalled,
    /// No connection is accepted.
    Refusing,
    /// The proxy is being dropped.
    Closed,
}

/// The decision about a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    Discard,
    /// Forward it, and nothing after it in either direction.
    PassAsTheLast,
    /// The connection is cut.
    Stop,
}

/// The network's view of a connection.
#[derive(Debug)]
pub(super) struct Line {
    wires: Arc<Wires>,
    /// A reply on it was dropped, so it cannot be used again.
    pub(super) lost_reply: bool,
    /// The client has been cut off, and the server may finish.
    silenced: bool,
    cut: bool,
}

/// Names one connection within its proxy.
pub(super) type LineId = u64;

#[derive(Debug)]
pub(super) struct Network {
    state: Mutex<State>,
    /// Notified after every change of the state.
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    condition: Condition,
    target: u16,
    /// The bytes after which a connection is cut.
    last_request: Option<Vec<u8>>,
    lines: BTreeMap<LineId, Line>,
    next: LineId,
}

impl Network {
    pub(super) fn to(target: u16) -> Self {
        let state = State {
            condition: Condition::Healthy,
            target,
            last_request: None,
            lines: BTreeMap::new(),
            next: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn condition(&self) -> Condition {
        self.state().condition
    }

    pub(super) fn change(&self, condition: Condition) {
        let mut state = self.state();
        state.condition = condition;
        if condition == Condition::Healthy {
            state.last_request = None;
        }
        self.changed.notify_all();
    }

    pub(super) fn target(&self) -> u16 {
        self.state().target
    }

    pub(super) fn aim(&self, port: u16) {
        self.state().target = port;
    }

    pub(super) fn cut_after_request(&self, pattern: &[u8]) {
        self.state().last_request = Some(pattern.to_vec());
    }

    pub(super) fn connections(&self) -> usize {
        self.state().lines.values().filter(|line| !line.silenced).count()
    }

    /// Cuts some of the connections, and waits until they are closed.
    pub(super) fn cut(&self, which: impl Fn(&Line) -> bool) {
        let mut state = self.state();
        for line in state.lines.values_mut().filter(|line| which(line)) {
            line.cut = true;
            line.wires.reset();
        }
        self.changed.notify_all();
        self.changed.wait_while(&mut state, |state| state.lines.values().any(|line| line.cut));
    }

    /// Registers a connection, unless connections are refused.
    pub(super) fn enter(&self, wires: &Arc<Wires>) -> Option<LineId> {
        let mut state = self.state();
        if matches!(state.condition, Condition::Refusing | Condition::Closed) {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let wires = Arc::clone(wires);
        state.lines.insert(id, Line { wires, lost_reply: false, silenced: false, cut: false });
        Some(id)
    }

    /// Removes a connection and closes it, atomically for waiters.
    pub(super) fn leave(&self, id: LineId, wires: Arc<Wires>) {
        let mut state = self.state();
        state.lines.remove(&id);
        drop(wires);
        self.changed.notify_all();
    }

    /// Decides about a chunk, as soon as that is possible. The end of a stream is an empty chunk.
    pub(super) fn judge(&self, id: LineId, direction: Direction, chunk: &[u8]) -> Verdict {
        let mut state = self.state();
        loop {
            match state.judge(id, direction, chunk) {
                Some(verdict) => return verdict,
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Whether a connection was cut, for a blocked writer.
    pub(super) fn is_cut(&self, id: LineId) -> bool {
        self.state().lines.get(&id).is_none_or(|line| line.cut)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// `None`: wait for a change.
    fn judge(&mut self, id: LineId, direction: Direction, chunk: &[u8]) -> Option<Verdict> {
        let line = self.lines.get_mut(&id).expect("a connection leaves only after its last chunk");
        if line.cut {
            return Some(Verdict::Stop);
        }
        match (self.condition, direction) {
            (Condition::Stalled, _) => None,
            (_, Direction::FromServer) if line.silenced => Some(Verdict::Discard),
            (Condition::Swallowing, Direction::FromServer) => {
                line.lost_reply = true;
                // The end of the server's stream is a reply too.
                (!chunk.is_empty()).then_some(Verdict::Discard)
            }
            (_, Direction::FromServer) => Some(Verdict::Pass),
            (_, Direction::FromClient) => Some(self.judge_request(id, chunk)),
        }
    }

    fn judge_request(&mut self, id: LineId, chunk: &[u8]) -> Verdict {
        if self.last_request.take_if(|pattern| contains(chunk, pattern)).is_none() {
            return Verdict::Pass;
        }
        if let Some(line) = self.lines.get_mut(&id) {
            line.silenced = true;
        }
        Verdict::PassAsTheLast
    }
}

fn contains(chunk: &[u8], pattern: &[u8]) -> bool {
    pattern.is_empty() || chunk.windows(pattern.len()).any(|window| window == pattern)
}
