//! Resolves what dead workers left open.
//!
//! A killed worker leaves attempts without an answer. Each is sent again, unchanged, under its id:
//! if it had happened, the answer is the first one's; if not, it happens now or is refused. Some
//! answered commits are sent once more, to check that the answer is still the same and that nothing
//! is written twice. Runs that a dead worker requested are requested again.

use std::collections::{BTreeSet, HashMap};

use tidelock::store::{Commit, CommitId};

use crate::board::Wish;
use crate::caller::{Bug, Caller};
use crate::finding::{Finding, Kind};
use crate::journal::Entry;
use crate::ledger::Journals;
use crate::sample_run::{self, First};
use crate::space::Space;

/// Number of answered commits that are sent once more.
const REPLAYS: usize = 200;

/// Sends every unanswered commit again. The audit judges the answers; returned are those that still
/// have none.
pub(crate) async fn resolve(caller: &Caller, journals: &Journals) -> Option<Finding> {
    let open = unanswered(journals);
    open.keys().for_each(|id| caller.note(&Entry::Orphaned(*id)));
    send_again(caller, open.into_values()).await
}

fn unanswered(journals: &Journals) -> HashMap<CommitId, &Commit> {
    let mut open = HashMap::new();
    for entry in journals.iter().flat_map(|(_, entries)| entries) {
        match entry {
            Entry::Try(commit) => drop(commit.id.map(|id| open.insert(id, commit))),
            Entry::Acked { id, .. } | Entry::Refused { id, .. } => drop(open.remove(id)),
            _ => {}
        }
    }
    open
}

/// Sends some of the acknowledged commits again, judged in the same way.
pub(crate) async fn replay(caller: &Caller, journals: &Journals) -> Option<Finding> {
    let acked = acked(journals);
    let every = acked.len() / REPLAYS + 1;
    send_again(caller, acked.into_iter().step_by(every)).await
}

/// Requests every run again whose requester did not see its end: a dead worker may have done half
/// of it.
pub(crate) async fn ask_for_runs(
    caller: &Caller,
    space: &Space,
    journals: &Journals,
) -> Result<(), Bug> {
    for run in unfinished(journals) {
        sample_run::ask_for(caller, space, run, First::Start).await?;
    }
    Ok(())
}

fn unfinished(journals: &Journals) -> BTreeSet<&str> {
    let mut runs = BTreeSet::new();
    for entry in journals.iter().flat_map(|(_, entries)| entries) {
        match entry {
            Entry::Ordered(run) => drop(runs.insert(run.as_str())),
            Entry::Told { run, .. } => drop(runs.remove(run.as_str())),
            _ => {}
        }
    }
    runs
}

/// Requests every change again whose worker did not receive an answer.
pub(crate) async fn ask_for_changes(
    caller: &Caller,
    space: &Space,
    journals: &Journals,
) -> Result<(), Bug> {
    for wish in unheard(journals).into_values() {
        wish.fulfil(caller, space).await?;
    }
    Ok(())
}

fn unheard(journals: &Journals) -> HashMap<&str, &Wish> {
    let mut wishes = HashMap::new();
    for entry in journals.iter().flat_map(|(_, entries)| entries) {
        match entry {
            Entry::Wished(wish) => drop(wishes.insert(wish.id.as_str(), wish)),
            Entry::Changed { id, .. } | Entry::Declined(id) => drop(wishes.remove(id.as_str())),
            _ => {}
        }
    }
    wishes
}

async fn send_again<'a>(
    caller: &Caller,
    commits: impl Iterator<Item = &'a Commit>,
) -> Option<Finding> {
    for commit in commits {
        if let Err(bug) = caller.commit_again(commit).await {
            let what = format!("commit {:?}, sent again, gets no answer: {bug}", commit.id);
            return Some(Finding::new(Kind::Contradiction, what));
        }
    }
    None
}

fn acked(journals: &Journals) -> Vec<&Commit> {
    let (mut tried, mut acked) = (HashMap::new(), Vec::new());
    for entry in journals.iter().flat_map(|(_, entries)| entries) {
        match entry {
            Entry::Try(commit) => drop(commit.id.map(|id| tried.insert(id, commit))),
            Entry::Acked { id, .. } => acked.extend(tried.remove(id)),
            _ => {}
        }
    }
    acked
}
