//! Coverage counts: a run in which nothing happened is not a pass.

use std::fmt;

use tidelock_store::{CommitOutcome, Renewal, StoreErrorKind};

use super::call::{Answer, Call};
use super::past::Past;

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident at least $floor:literal in a hundred,)*) => {
        /// How often each thing happened.
        #[derive(Debug, Default)]
        pub(super) struct Tally {
            $($(#[$doc])* $name: u64,)*
        }

        impl Tally {
            pub(super) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Each count, and the least for a hundred histories.
            fn floors(&self) -> impl Iterator<Item = (&'static str, u64, u64)> {
                [$((stringify!($name), self.$name, $floor)),*].into_iter()
            }
        }
    };
}

// About a third of what happens on average.
tally! {
    /// Commits that were accepted.
    accepted at least 400 in a hundred,
    /// Commits that were refused with a conflict.
    refused at least 250 in a hundred,
    /// Commits and appends that were known already.
    replayed at least 60 in a hundred,
    /// Commits that used an id for something else.
    mismatched at least 25 in a hundred,
    /// Calls with meaningless input.
    invalid at least 100 in a hundred,
    /// Streams that were trimmed.
    trimmed at least 20 in a hundred,
    /// Leases that were granted.
    leased at least 120 in a hundred,
    /// Leases that were granted after another expired.
    taken_over at least 20 in a hundred,
    /// Leases that were settled.
    settled at least 70 in a hundred,
    /// Leases that were renewed.
    renewed at least 40 in a hundred,
    /// Leases that were lost when they were to be renewed.
    lost at least 70 in a hundred,
    /// Items that were adjusted.
    adjusted at least 30 in a hundred,
    /// Events, records and items that were read.
    read at least 600 in a hundred,
}

impl Tally {
    pub(super) fn count(&mut self, call: &Call, answer: &Answer, past: &Past) {
        match (call, answer) {
            (Call::Commit(commit), Answer::Commit(CommitOutcome::Committed(committed))) => {
                let again =
                    past.has(commit) || committed.appends.iter().any(|append| append.replayed);
                self.replayed += u64::from(again);
                self.accepted += u64::from(!again);
                self.settled += commit.settlements.len() as u64;
                self.trimmed += commit.trims.len() as u64;
            }
            (_, Answer::Commit(CommitOutcome::Conflict(_))) => self.refused += 1,
            (_, Answer::Failed(StoreErrorKind::IdempotencyMismatch)) => self.mismatched += 1,
            (_, Answer::Failed(_)) => self.invalid += 1,
            (_, Answer::Leased(leased)) => {
                self.leased += leased.leases.len() as u64;
                self.taken_over +=
                    leased.leases.iter().filter(|lease| lease.expiries > 0).count() as u64;
            }
            (_, Answer::Renewed(renewals)) => {
                let renewed = renewals
                    .iter()
                    .filter(|renewal| matches!(renewal, Renewal::Renewed(_)))
                    .count();
                self.renewed += renewed as u64;
                self.lost += (renewals.len() - renewed) as u64;
            }
            (_, Answer::Adjusted(adjusted)) => self.adjusted += adjusted.changed,
            (_, Answer::Stream(page)) => self.read += page.events.len() as u64,
            (_, Answer::Feed(events)) => self.read += events.len() as u64,
            (_, Answer::Records(records)) => self.read += records.len() as u64,
            (_, Answer::Items(items)) => self.read += items.len() as u64,
            _ => {}
        }
    }

    /// Fails if too little happened in this many histories.
    pub(super) fn check_floors(&self, cases: u32) -> Result<(), String> {
        if cases < FEW {
            return Ok(());
        }
        let per = if cases < MANY { 4 * MANY } else { MANY };
        let least = |floor: u64| floor * u64::from(cases) / u64::from(per);
        match self.floors().find(|(_, count, floor)| *count < least(*floor)) {
            Some((name, count, floor)) => Err(format!(
                "only {count} {name} in {cases} histories, where {} make them worth something: {self}",
                least(floor)
            )),
            None => Ok(()),
        }
    }
}

/// With so few histories, a count can be zero by chance.
const FEW: u32 = 20;

/// The number of histories that the floors are for. In fewer histories a count can be under its
/// floor by chance, though not far: of 600 runs of 32, three reached two thirds of one.
const MANY: u32 = 100;

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> =
            self.floors().map(|(name, count, _)| format!("{count} {name}")).collect();
        f.write_str(&counts.join(", "))
    }
}
