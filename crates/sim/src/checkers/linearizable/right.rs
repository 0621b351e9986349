//! The sequential right: a lock, a key or the lease of an item, held under a growing fence.

use super::Object;

/// An operation on a right, with its answer.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum RightOp {
    /// It was granted, for this span of the store's clock.
    Granted { fence: u64, since: i64, until: i64 },
    /// It is held until then.
    Renewed { fence: u64, until: i64 },
    /// A write landed under it.
    Used { fence: u64 },
    /// It ended; a key with this result.
    Ended { fence: u64, result: Option<String> },
    /// An operator revoked it, if it was held.
    Revoked,
    /// The key was found to be completed, with this result.
    Found { result: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct Right {
    /// The newest fence; 0 before the first grant.
    fence: u64,
    /// Until when it is held, if it is.
    until: Option<i64>,
    result: Option<String>,
}

impl Right {
    fn is_held_under(&self, fence: u64) -> bool {
        self.until.is_some() && fence == self.fence
    }

    fn granted(&self, fence: u64, since: i64, until: i64) -> Option<Self> {
        if self.is_held_under(fence) {
            // The same answer again, to a request that was sent again.
            return Some(self.clone());
        }
        let is_free = self.until.is_none_or(|until| until <= since);
        (fence > self.fence && is_free).then_some(Self { fence, until: Some(until), result: None })
    }

    fn ended(&self, fence: u64, result: Option<&String>) -> Option<Self> {
        let result = result.or(self.result.as_ref()).cloned();
        (fence == self.fence).then_some(Self { fence, until: None, result })
    }
}

/// A right.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct RightObject;

impl Object for RightObject {
    type Op = RightOp;
    type State = Right;

    fn initial(&self) -> Right {
        Right { fence: 0, until: None, result: None }
    }

    fn step(&self, state: &Right, op: &RightOp, next: &mut Vec<Right>) {
        let unchanged = |holds: bool| holds.then(|| state.clone());
        next.extend(match op {
            RightOp::Granted { fence, since, until } => state.granted(*fence, *since, *until),
            RightOp::Renewed { fence, until } => unchanged(state.is_held_under(*fence))
                .map(|right| Right { until: right.until.max(Some(*until)), ..right }),
            RightOp::Used { fence } => unchanged(state.is_held_under(*fence)),
            RightOp::Ended { fence, result } => state.ended(*fence, result.as_ref()),
            RightOp::Revoked => Some(Right { until: None, ..state.clone() }),
            RightOp::Found { result } => unchanged(state.result.as_ref() == Some(result)),
        });
    }

    fn is_read(&self, op: &RightOp) -> bool {
        matches!(op, RightOp::Used { .. } | RightOp::Found { .. })
    }

    fn is_too_late(&self, state: &Right, op: &RightOp) -> bool {
        match op {
            RightOp::Granted { fence, .. }
            | RightOp::Renewed { fence, .. }
            | RightOp::Used { fence }
            | RightOp::Ended { fence, .. } => state.fence > *fence,
            RightOp::Revoked | RightOp::Found { .. } => false,
        }
    }
}
