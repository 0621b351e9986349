//! Mutants: the store with one promise broken, or a pattern with one defect, as positive controls.
//!
//! A search that does not find them would not find the defects of the product. Most are a layer
//! over the store that breaks one rule of its contract, now and then; those of the patterns change
//! what a pattern keeps in the store, or how the application under test uses it.

mod commits;
mod reads;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidelock::store::{Leased, Slot, Store};

use super::profile::Profile;
use super::rng::Rng;

/// Defines the mutants, their names and what is wrong with them in one list.
macro_rules! mutants {
    ($($(#[doc = $doc:literal])+ $mutant:ident,)+) => {
        /// A defect.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Mutant {
            $($(#[doc = $doc])+ $mutant,)+
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$mutant,)+];

            /// What is wrong.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$mutant => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

mutants! {
    /// Accepts every lease as the current one.
    IgnoresFences,
    /// Checks no version of a stream.
    IgnoresVersions,
    /// Checks no revision of a record.
    IgnoresRevisions,
    /// Checks no guard.
    IgnoresGuards,
    /// Checks no bound of a counter.
    IgnoresBounds,
    /// Takes every event for a new one.
    ForgetsEventIds,
    /// Takes every commit for a new one, and so repeats those that are sent again.
    ForgetsCommitIds,
    /// Checks versions before it looks for events that are there already.
    DedupesAfterVersions,
    /// Acknowledges a commit that it did not write.
    LosesCommits,
    /// Writes a commit twice, under other ids.
    DoublesCommits,
    /// Writes the events of a commit, and not its records.
    TearsRecords,
    /// Writes the records of a commit, and not its events.
    TearsEvents,
    /// Leaves out the wakes of a commit.
    LosesWakes,
    /// Writes what belongs to the end of a lease, and leaves the lease.
    LosesSettlements,
    /// Reports a commit that it wrote as a conflict.
    InventsConflicts,
    /// Reports a commit that it wrote as one of which nothing was written.
    InventsFailures,
    /// Reports a conflict as a commit.
    HidesConflicts,
    /// Removes one event too many.
    TrimsTooMuch,
    /// Leaves a stream open that is closed.
    KeepsStreamsOpen,
    /// Adds to counters by reading and writing.
    AddsInTwoSteps,
    /// Leaves an event out of a page of the feed.
    SkipsFeedEvents,
    /// Repeats the last event of a page of the feed at the beginning of the next.
    RepeatsFeedEvents,
    /// Shows two events of the feed in the wrong order.
    ReordersFeed,
    /// Leaves the last event out of a page of a stream.
    HidesStreamEvents,
    /// Takes an empty page for the end.
    EndsAtEmptyPages,
    /// Says after every page that it was the last.
    DropsNext,
    /// Says of a lost lease that it was renewed.
    HidesLoss,
    /// Renews the current lease of an item for a stale holder.
    RenewsForStaleHolders,
    /// Grants the same lease to two callers.
    GrantsTwice,
    /// Grants leases that last for days.
    LeasesForDays,
    /// Never grants an item whose last lease expired.
    AbandonsExpired,
    /// Answers with a record as it was before.
    ReadsStale,
    /// Keeps deleted records.
    KeepsDeleted,
    /// Keeps expired records.
    NeverExpires,
    /// Ignores what operators adjust.
    IgnoresOperators,
    /// Forgets the operations of aggregates.
    ForgetsOperations,
    /// Forgets the operations of scopes.
    ForgetsScopeOperations,
    /// Keeps a snapshot under a version that the stream does not have yet.
    SnapshotsTheFuture,
    /// Keeps units of a quota that were given back.
    KeepsQuota,
    /// Loses the units of a quota whose holder dies.
    LosesQuotaWithHolder,
    /// Takes half of the price of a draw on a rate limit.
    DrawsForHalf,
    /// Takes a gap that a restore left in the feed for its end.
    StopsAtGaps,
    /// Flushes nothing before it acknowledges.
    ForgetsFlushes,
    /// Says that nothing is paused.
    HidesPauses,
    /// Keeps the personal data of a subject that is erased.
    KeepsPersonalData,
    /// Adds personal data of a subject that is erased.
    ForgetsErasures,
    /// Begins a route of a reaction after an event that was not routed.
    RoutesTooFar,
    /// A handler writes outside of the commit of its ack.
    HandlersWriteOutside,
    /// A transactional step writes outside of the commit of its record.
    StepsWriteOutside,
    /// The holder of a lock writes without its fence.
    LocksWriteUnfenced,
    /// The effect of a key lands before its completion.
    KeysWriteOutside,
    /// A job is acknowledged before its effect.
    JobsAckFirst,
}

impl Mutant {
    /// The profile in which it shows, if it does not in every one.
    pub fn profile(self) -> Option<Profile> {
        match self {
            Self::StopsAtGaps => Some(Profile::files()),
            Self::ForgetsFlushes => Some(Profile::power()),
            _ => None,
        }
    }

    /// The mutant of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mutant| format!("{mutant:?}") == name)
    }
}

/// The store with this defect, if there is one.
pub(crate) fn over(store: Arc<dyn Store>, mutant: Option<Mutant>, seed: u64) -> Arc<dyn Store> {
    match mutant {
        Some(mutant) => Arc::new(Mutated {
            store,
            mutant,
            state: Mutex::new(State {
                rng: Rng::seeded(seed).fork(3),
                granted: None,
                read: BTreeMap::new(),
            }),
        }),
        None => store,
    }
}

#[derive(Debug)]
struct Mutated {
    store: Arc<dyn Store>,
    mutant: Mutant,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rng: Rng,
    /// The last grant.
    granted: Option<Leased>,
    /// The first answers about records.
    read: BTreeMap<String, Slot>,
}

impl Mutated {
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == mutant
    }

    /// Whether this is the mutant, and shows its defect: seldom enough that all else goes on.
    fn now_and_then(&self, mutant: Mutant, one_in: u64) -> bool {
        self.is(mutant) && self.lock().rng.one_in(one_in)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
