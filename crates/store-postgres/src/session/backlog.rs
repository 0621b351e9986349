//! How many questions in a row were given up before their answers came.
//!
//! A question that nobody waits for any more is still answered, and kept until then. A server that
//! is stopped answers nothing: callers who give up and ask again would fill the memory, and the
//! server would do it all when it goes on. One answer is enough to know that all before it have
//! been given.

use std::sync::atomic::{AtomicUsize, Ordering};

/// After so many nothing more is asked until there was an answer.
const MANY: usize = 1_000;

#[derive(Debug, Default)]
pub(super) struct Backlog {
    given_up: AtomicUsize,
}

impl Backlog {
    /// Somebody asks, and waits for the answer.
    pub(super) fn ask(&self) -> Waiting<'_> {
        Waiting { silence: self, answered: false }
    }

    /// Whether somebody has given up since the last answer.
    pub(super) fn is_any(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) > 0
    }

    /// Whether so many have that nothing more should be asked.
    pub(super) fn is_long(&self) -> bool {
        self.given_up.load(Ordering::Relaxed) >= MANY
    }
}

/// One who waits for an answer. Dropped without one, it has given up.
pub(super) struct Waiting<'a> {
    silence: &'a Backlog,
    answered: bool,
}

impl Waiting<'_> {
    /// Here it is.
    pub(super) fn answered(mut self) {
        self.answered = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.answered {
            self.silence.given_up.store(0, Ordering::Relaxed);
        } else {
            self.silence.given_up.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_ends_the_silence() {
        let silence = Backlog::default();
        for nth in 0..MANY {
            assert_eq!((silence.is_any(), silence.is_long()), (nth > 0, false));
            drop(silence.ask());
        }
        assert!(silence.is_long());
        silence.ask().answered();
        assert!(!silence.is_any() && !silence.is_long());
    }
}
