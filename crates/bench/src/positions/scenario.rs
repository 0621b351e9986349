//! The scenarios: how many write, to what, and what else goes on meanwhile.

use crate::failure::Failure;

/// All mechanisms go through it, in turns.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) processes: usize,
    /// Of each process.
    pub(super) callers: usize,
    /// Of each process, to write through.
    pub(super) connections: usize,
    /// How many streams all callers share; none: each has its own, and a new one now and then.
    pub(super) shared: Option<usize>,
    /// Committers do not wait for callers who were just answered.
    pub(super) hasty: bool,
    pub(super) beside: Beside,
}

/// What else goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// Somebody reads the whole feed, over and over.
    Scan,
    /// Somebody opened a snapshot and left it open, and many commits have been made since.
    OldSnapshot,
    /// Somebody has written to something else, and has not committed yet.
    OpenWriter,
}

const fn scenario(name: &'static str, processes: usize, callers: usize) -> Scenario {
    Scenario { name, processes, callers, connections: 1, shared: None, hasty: false, beside: Beside::Nothing }
}

impl Scenario {
    const fn over(self, connections: usize) -> Self {
        Self { connections, ..self }
    }

    const fn sharing(self, streams: usize) -> Self {
        Self { shared: Some(streams), ..self }
    }

    const fn hasty(self) -> Self {
        Self { hasty: true, ..self }
    }

    const fn beside(self, beside: Beside) -> Self {
        Self { beside, ..self }
    }
}

/// In the order in which they are measured.
const SCENARIOS: &[Scenario] = &[
    scenario("1x1", 1, 1),
    scenario("1x16", 1, 16),
    scenario("1x64", 1, 64),
    scenario("1x256", 1, 256),
    scenario("4x16", 4, 16),
    scenario("4x64", 4, 64),
    scenario("1x16-hasty", 1, 16).hasty(),
    scenario("4x16-hasty", 4, 16).hasty(),
    scenario("1x64-over-2", 1, 64).over(2),
    scenario("1x256-over-2", 1, 256).over(2),
    scenario("4x16-shared", 4, 16).sharing(64),
    scenario("1x16-scanned", 1, 16).beside(Beside::Scan),
    scenario("1x1-hot", 1, 1).sharing(1),
    scenario("1x1-aged", 1, 1).beside(Beside::OldSnapshot),
    scenario("1x1-hot-aged", 1, 1).sharing(1).beside(Beside::OldSnapshot),
    scenario("1x16-held", 1, 16).beside(Beside::OpenWriter),
];

/// The scenarios that were chosen; all of them, if none was.
pub(super) fn chosen(choices: &[String]) -> Result<Vec<&'static Scenario>, Failure> {
    if let Some(unknown) = choices.iter().find(|choice| !SCENARIOS.iter().any(|s| s.name == **choice)) {
        let known: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        return Err(Failure::Usage {
            what: format!("there is no scenario {unknown}"),
            hint: format!("one of {}", known.join(", ")),
        });
    }
    let wanted = |s: &&Scenario| choices.is_empty() || choices.iter().any(|choice| s.name == choice);
    Ok(SCENARIOS.iter().filter(wanted).collect())
}
