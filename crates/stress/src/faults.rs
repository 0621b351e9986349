//! The injected faults, counted.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    /// SIGKILL to a worker that held leases, according to the store.
    KilledHolding,
    /// SIGKILL to a worker in the middle of anything.
    Killed,
    /// SIGSTOP to a worker that held leases, until other workers had all of them.
    StoppedHolding,
    /// SIGSTOP to a worker in the middle of anything, for a while.
    Stopped,
    /// The server stopped in immediate mode and started again.
    ServerRestarted,
    /// All connections reset.
    Cut,
    /// A connection reset between a commit's request and its reply.
    CutAfterRequest,
    /// Requests forwarded, replies dropped, for a while.
    RepliesSwallowed,
    /// No connections accepted, for a while.
    Refused,
    /// Nothing forwarded, connections kept, for a while.
    Stalled,
}

impl Fault {
    fn name(self) -> &'static str {
        match self {
            Self::KilledHolding => "killed holding leases",
            Self::Killed => "killed",
            Self::StoppedHolding => "stopped past the lease",
            Self::Stopped => "stopped",
            Self::ServerRestarted => "server restarted",
            Self::Cut => "cut",
            Self::CutAfterRequest => "cut after request",
            Self::RepliesSwallowed => "replies swallowed",
            Self::Refused => "refused",
            Self::Stalled => "stalled",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Faults(BTreeMap<Fault, u64>);

impl Faults {
    pub(crate) fn count(&mut self, fault: Fault) {
        *self.0.entry(fault).or_default() += 1;
    }

    pub(crate) fn of(&self, fault: Fault) -> u64 {
        self.0.get(&fault).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (fault, count) in &other.0 {
            *self.0.entry(*fault).or_default() += count;
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (at, (fault, count)) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { ", " };
            write!(f, "{separator}{count} {fault}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_by_kind() {
        let mut faults = Faults::default();
        assert_eq!(faults.to_string(), "none");
        faults.count(Fault::Cut);
        faults.count(Fault::Killed);
        faults.add(&faults.clone());
        assert_eq!(faults.to_string(), "2 killed, 2 cut");
        assert_eq!((faults.of(Fault::Cut), faults.of(Fault::Stalled)), (2, 0));
    }
}
