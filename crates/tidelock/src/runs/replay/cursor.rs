//! Replay cursor: the recorded order, and how far the function has come in it.
//!
//! A result is delivered only after everything known before it has been requested again and
//! delivered, so that a replay repeats the order of the first execution.

use super::operation::{Operation, Phase};
use super::{OpId, Wake};

/// A place in the recorded order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// The first entry of an operation.
    Began(OpId),
    /// The end of an operation.
    Ended(OpId),
    /// The place of an entry whose commit failed.
    Void,
}

/// The order, and the current place in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cursor {
    pub(super) order: Vec<Mark>,
    /// Everything before this was requested and delivered.
    position: usize,
    /// The end of the order as it was loaded.
    recorded: usize,
}

impl Cursor {
    /// Ends the loading: what is in the order now is replayed.
    pub(super) fn start(&mut self, ops: &mut [Operation]) {
        self.recorded = self.order.len();
        for (at, mark) in self.order.iter().enumerate() {
            if let Mark::Ended(op) = mark {
                ops[*op].end_mark = Some(at);
            }
        }
        self.advance(ops);
    }

    /// Whether replay has not consumed the loaded history.
    pub(super) fn is_replay(&self) -> bool {
        self.position < self.recorded
    }

    /// Appends a mark and returns its place.
    pub(super) fn push(&mut self, mark: Mark) -> usize {
        self.order.push(mark);
        self.order.len() - 1
    }

    /// Takes a mark back.
    pub(super) fn void(&mut self, at: usize) {
        self.order[at] = Mark::Void;
    }

    /// Advances past everything that was requested and delivered; says what to wake: the operation
    /// whose end is next, or all when the replay is over.
    pub(super) fn advance(&mut self, ops: &[Operation]) -> Wake {
        let was_replay = self.is_replay();
        let mut next = Wake::None;
        while let Some(mark) = self.order.get(self.position) {
            if !is_passed(*mark, ops) {
                if let Mark::Ended(op) = mark {
                    next = Wake::One(*op);
                }
                break;
            }
            self.position += 1;
        }
        if was_replay && !self.is_replay() { Wake::All } else { next }
    }

    /// Whether this place is next.
    pub(super) fn is_at(&self, mark: Option<usize>) -> bool {
        mark == Some(self.position)
    }

    /// The operation at the current place, and whether its end is.
    pub(super) fn next(&self) -> Option<(OpId, bool)> {
        match self.order.get(self.position)? {
            Mark::Began(op) => Some((*op, false)),
            Mark::Ended(op) => Some((*op, true)),
            Mark::Void => None,
        }
    }

    /// The operation of the last recorded end.
    pub(super) fn last_end(&self) -> Option<OpId> {
        self.order.iter().rev().find_map(|mark| match mark {
            Mark::Ended(op) => Some(*op),
            _ => None,
        })
    }

    /// Checks that nothing before the current place is outstanding.
    #[cfg(debug_assertions)]
    pub(super) fn is_consistent(&self, ops: &[Operation]) -> bool {
        self.position <= self.order.len()
            && self.order[..self.position].last().is_none_or(|mark| is_passed(*mark, ops))
    }
}

fn is_passed(mark: Mark, ops: &[Operation]) -> bool {
    match mark {
        Mark::Void => true,
        Mark::Began(op) => ops[op].phase.is_excused() || ops[op].phase.is_requested(),
        Mark::Ended(op) => {
            let phase = ops[op].phase;
            phase.is_excused() || matches!(phase, Phase::Delivered | Phase::PassedOver)
        }
    }
}
