//! Profiles: which faults a search favors.

use super::fault::Fault::{self, *};
use super::place::Medium;

/// How a plan is made from a seed.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// One to this many processes more than one.
    pub processes: u64,
    /// At most this many faults at given moments.
    pub events: u64,
    /// Their kinds; one that is listed twice is twice as frequent.
    pub kinds: Vec<Fault>,
    /// How often the faults of calls happen, in ten thousand calls.
    pub calls: Vec<(Fault, u32)>,
    /// At most this many operations of each client, and a few.
    pub operations: u64,
    /// Where the store keeps its data.
    pub medium: Medium,
}

const OPERATORS: [Fault; 10] =
    [Unblock, Reset, Cancel, Close, Defer, EndRuns, EndJobs, Skip, PauseWork, Erase];
const HANDLERS: [(Fault, u32); 4] =
    [(HandlerFails, 300), (HandlerRefuses, 100), (HandlerPanics, 60), (HandlerHangs, 40)];
const WAKES: [(Fault, u32); 4] =
    [(LostWake, 600), (DoubledWake, 300), (LateWake, 600), (ShortPages, 5_000)];

impl Profile {
    /// The names of all profiles that repeat themselves.
    pub const NAMES: [&'static str; 6] =
        ["storms", "deaths", "network", "operators", "files", "calm"];

    /// The profile of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [
            Self::storms(),
            Self::deaths(),
            Self::network(),
            Self::operators(),
            Self::files(),
            Self::calm(),
            Self::power(),
            Self::postgres(),
        ];
        all.into_iter().find(|profile| profile.name == name)
    }

    /// Everything at once.
    pub fn storms() -> Self {
        let kinds =
            [Kill, Kill, Pause, Pause, Cut, Redeploy, Restart, Import, ClockForward, ClockBack];
        let calls = [
            (Later, 60),
            (Never, 2),
            (LostReply, 100),
            (NotDone, 60),
            (LateCommit, 40),
            (SlowCall, 10),
            (SlowReply, 10),
            (DeathBefore, 6),
            (DeathAfter, 6),
        ];
        Self {
            name: "storms",
            processes: 4,
            events: 16,
            kinds: kinds.into_iter().chain(OPERATORS).collect(),
            calls: calls.into_iter().chain(WAKES).chain(HANDLERS).collect(),
            operations: 30,
            medium: Medium::Memory,
        }
    }

    /// Processes that die and pause at any call.
    pub fn deaths() -> Self {
        let calls = [(DeathBefore, 25), (DeathAfter, 25), (LostReply, 20), (SlowReply, 10)];
        Self {
            name: "deaths",
            events: 10,
            kinds: vec![Kill, Pause, Redeploy],
            calls: calls.into_iter().chain(WAKES).collect(),
            ..Self::storms()
        }
    }

    /// A network that loses, delays and cuts.
    pub fn network() -> Self {
        let calls =
            [(Later, 200), (LostReply, 300), (NotDone, 150), (LateCommit, 150), (SlowCall, 20)];
        Self {
            name: "network",
            events: 8,
            kinds: vec![Cut, Restart],
            calls: calls.into_iter().chain([(SlowReply, 20)]).chain(WAKES).collect(),
            ..Self::storms()
        }
    }

    /// Operators at the worst moment, and handlers that fail.
    pub fn operators() -> Self {
        Self {
            name: "operators",
            events: 30,
            kinds: OPERATORS.into_iter().chain([Kill, Redeploy, Import]).collect(),
            calls: [(Later, 30), (LostReply, 30)].into_iter().chain(HANDLERS).collect(),
            ..Self::storms()
        }
    }

    /// Storms over an SQLite file, which is closed and opened, and restored from backups.
    pub fn files() -> Self {
        let storms = Self::storms();
        let kinds = [Restart, Restart, Restore, Restore, Restore];
        let kinds = kinds.into_iter().chain(storms.kinds.clone()).collect();
        Self { name: "files", kinds, medium: Medium::File, ..storms }
    }

    /// Storms over an SQLite file on a disk whose power fails. What the disk loses is known only
    /// behind the shim of `tidelock-test-disk`.
    pub fn power() -> Self {
        let storms = Self::storms();
        let kinds = [PowerCut; 6].into_iter().chain(storms.kinds.clone()).collect();
        Self { name: "power", kinds, medium: Medium::File, ..storms }
    }

    /// The same processes in real time, on PostgreSQL behind a network that fails. Nothing here
    /// repeats itself: what a seed decides is the plan, and not what comes of it.
    pub fn postgres() -> Self {
        let kinds = [Kill, Kill, Pause, Cut, Cut, Cut, Redeploy, Restart];
        Self {
            name: "postgres",
            processes: 2,
            events: 16,
            kinds: kinds.into_iter().chain(OPERATORS).collect(),
            medium: Medium::Server,
            ..Self::storms()
        }
    }

    /// Whether a search with this profile can reach this fault.
    pub fn has(&self, fault: Fault) -> bool {
        self.kinds.contains(&fault) || self.calls.iter().any(|(kind, _)| *kind == fault)
    }

    /// No fault at all: what fails here needs only concurrency.
    pub fn calm() -> Self {
        Self { name: "calm", events: 0, kinds: vec![Kill], calls: Vec::new(), ..Self::storms() }
    }
}
