//! Backlog of abandoned requests: how many in a row were dropped before their answers came.
//!
//! An abandoned request is still answered, and kept until then. A stopped server answers nothing:
//! callers that give up and retry would fill the memory, and the server would do all of it when it
//! resumes. One answer proves that all requests before it are answered.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The backlog from which on nothing more is sent until there is an answer.
const MANY: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Backlog {
    given_up: AtomicUsize,
}

impl Backlog {
    /// Registers a request that waits for its answer.
    pub(super) fn ask(&self) -> Waiting<'_> {
        Waiting { backlog: self, answered: false }
    }

    /// Whether a request was abandoned since the last answer.
    pub(super) fn is_any(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) > 0
    }

    /// Whether the backlog is so long that nothing more should be sent.
    pub(super) fn is_long(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) >= MANY
    }
}

/// A request in flight. Dropped without an answer, it counts as abandoned.
pub(super) struct Waiting<'a> {
    backlog: &'a Backlog,
    answered: bool,
}

impl Waiting<'_> {
    /// Records the answer.
    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.answered {
            self.backlog.given_up.store(0, Ordering::Relaxed);
        } else {
            self.backlog.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_ends_the_silence() {
        let backlog = Backlog::default();
        for nth in 0..MANY {
            assert_eq!((backlog.is_any(), backlog.is_long()), (nth > 0, false));
            drop(backlog.ask());
        }
        assert!(backlog.is_long());
        backlog.ask().answered();
        assert!(!backlog.is_any() && !backlog.is_long());
    }
}
