//! The table of legal transitions: which inputs an operation accepts in which phase, and what
//! becomes of it.

use super::operation::Phase;

/// What happens to an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    /// The function requests it.
    Request,
    /// An entry other than its end is queued.
    Note,
    /// Its end is queued: as the entry of this number, which must be durable before it is
    /// delivered, or as 0.
    End(u64),
    /// An entry with staged writes is queued.
    Stage,
    /// That entry is taken into a commit, under this number.
    Commit {
        number: u64,
        /// Whether it is the end.
        ends: bool,
    },
    /// That commit failed.
    Uncommit { was_open: bool },
    /// Its end is durable.
    Durable,
    /// The function takes the result.
    Deliver,
    /// The function waits for something else while the result is next.
    PassOver,
    /// The function drops it.
    Abandon,
}

/// The phase after an input; `None` if the input is not legal in this phase.
pub(super) fn next(phase: Phase, input: Input) -> Option<Phase> {
    use Phase::{
        Abandoned, Delivered, Ended, Ending, New, Open, Orphan, PassedOver, PastDropped, PastEnded,
        PastOpen, Removed, Staged,
    };
    Some(match (phase, input) {
        (PastOpen, Input::Request) => Open,
        (PastEnded, Input::Request) => Ended,
        (PastDropped, Input::Request) => Orphan,

        (New | Open, Input::Note) => Open,
        (New | Open, Input::End(0)) => Ended,
        (New | Open, Input::End(number)) => Ending(number),
        (New, Input::Stage) => Staged { was_open: false },
        (Open, Input::Stage) => Staged { was_open: true },

        (Staged { .. }, Input::Commit { number, ends: true }) => Ending(number),
        (Staged { .. }, Input::Commit { ends: false, .. }) => Open,
        (Ending(_) | Open, Input::Uncommit { was_open: true }) => Open,
        (Ending(_) | Open, Input::Uncommit { was_open: false }) => New,
        // It was dropped while the commit was in flight, and nothing of it is recorded.
        (Abandoned, Input::Uncommit { was_open: true }) => Abandoned,
        (Abandoned, Input::Uncommit { was_open: false }) => Removed,

        (Ending(_), Input::Durable) => Ended,
        (Abandoned, Input::Durable) => Abandoned,
        (Ended | PassedOver, Input::Deliver) => Delivered,
        (Ended, Input::PassOver) => PassedOver,

        (New | Staged { was_open: false }, Input::Abandon) => Removed,
        (
            Open | Staged { was_open: true } | Ending(_) | Ended | PassedOver | Orphan,
            Input::Abandon,
        ) => Abandoned,
        (Delivered, Input::Abandon) => Delivered,

        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHASES: [Phase; 14] = [
        Phase::PastOpen,
        Phase::PastEnded,
        Phase::PastDropped,
        Phase::New,
        Phase::Open,
        Phase::Staged { was_open: false },
        Phase::Staged { was_open: true },
        Phase::Ending(1),
        Phase::Ended,
        Phase::PassedOver,
        Phase::Delivered,
        Phase::Abandoned,
        Phase::Orphan,
        Phase::Removed,
    ];

    #[test]
    fn every_requested_operation_can_be_dropped_once() {
        for phase in PHASES {
            let is_over = matches!(phase, Phase::Abandoned | Phase::Removed);
            let dropped = next(phase, Input::Abandon);
            assert_eq!(dropped.is_some(), phase.is_requested() && !is_over, "{phase:?}");
        }
    }

    #[test]
    fn nothing_is_recorded_of_an_operation_that_is_not_open() {
        let commit = Input::Commit { number: 1, ends: true };
        for phase in PHASES {
            let is_open = matches!(phase, Phase::New | Phase::Open);
            for input in [Input::Note, Input::End(0), Input::End(1), Input::Stage] {
                assert_eq!(next(phase, input).is_some(), is_open, "{phase:?}, {input:?}");
            }
            let is_staged = matches!(phase, Phase::Staged { .. });
            assert_eq!(next(phase, commit).is_some(), is_staged, "{phase:?}");
        }
    }

    #[test]
    fn a_result_is_delivered_once() {
        for phase in PHASES {
            let is_known = matches!(phase, Phase::Ended | Phase::PassedOver);
            assert_eq!(next(phase, Input::Deliver).is_some(), is_known, "{phase:?}");
        }
    }
}
