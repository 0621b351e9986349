//! Mutants that spoil commits.

use std::time::Duration;

use tidelock::ExpectedVersion;
use tidelock::store::{
    AfterAppend, Bounds, Change, Commit, CommitId, CommitOutcome, EventId, ExpectedRevision, Guard,
    RawJson, RecordKey, RecordWrite, Result, RetryAdvice, StoreError, StoreErrorKind, StoreExt,
    StoreOperation, StreamName, Version,
};

use super::{Mutant, Mutated};

impl Mutated {
    /// Makes a commit, with the defect.
    pub(super) async fn commit_mutated(&self, mut commit: Commit) -> Result<CommitOutcome> {
        match self.mutant {
            Mutant::IgnoresFences => self.usurp(&mut commit).await?,
            Mutant::IgnoresVersions => ignore_versions(&mut commit),
            Mutant::IgnoresRevisions => {
                commit.writes.iter_mut().for_each(|write| write.expected = ExpectedRevision::Any);
            }
            Mutant::IgnoresGuards => commit.guards.clear(),
            Mutant::IgnoresBounds => bounds(&mut commit).for_each(|within| *within = Bounds::NONE),
            Mutant::ForgetsEventIds => self.refresh_events(&mut commit).await?,
            Mutant::ForgetsCommitIds => commit.id = commit.id.map(|_| CommitId::fresh()),
            Mutant::DedupesAfterVersions => self.judge_versions_first(&mut commit).await?,
            Mutant::LosesCommits if self.chance(&commit, 40) => misdirect(&mut commit),
            Mutant::DoublesCommits if self.chance(&commit, 30) => self.write_again(&commit).await?,
            Mutant::TearsRecords if self.chance(&commit, 20) => misdirect_records(&mut commit, ""),
            Mutant::TearsEvents if self.chance(&commit, 20) => misdirect_events(&mut commit),
            Mutant::LosesWakes if self.now_and_then(Mutant::LosesWakes, 4) => {
                lose_wakes(&mut commit);
            }
            Mutant::LosesSettlements if self.chance(&commit, 10) => {
                let kept = commit.settlements.drain(..).map(|settlement| settlement.lease);
                commit.fences.extend(kept);
            }
            Mutant::InventsConflicts if self.chance(&commit, 40) => {
                let _written = self.store.commit(commit.clone()).await?;
                commit.id = None;
                let events = commit.appends.iter_mut().flat_map(|append| &mut append.events);
                events.for_each(|event| event.id = EventId::fresh());
            }
            Mutant::InventsFailures if self.chance(&commit, 40) => {
                let _written = self.store.commit(commit).await?;
                let (kind, advice) = (StoreErrorKind::Unavailable, RetryAdvice::Never);
                return Err(StoreError::new(kind, advice, StoreOperation::Commit, "a lie"));
            }
            Mutant::HidesConflicts => return self.hide_conflict(commit).await,
            Mutant::TrimsTooMuch => trim_more(&mut commit)?,
            Mutant::KeepsStreamsOpen => {
                for append in &mut commit.appends {
                    if append.events.is_empty() {
                        let name = format!("~mutant-{}", self.lock().rng.next());
                        append.stream = StreamName::new(name)?;
                        append.expected = ExpectedVersion::Any;
                    } else {
                        append.then = AfterAppend::StayOpen;
                    }
                }
            }
            Mutant::AddsInTwoSteps => self.add_in_two_steps(&mut commit).await?,
            Mutant::KeepsDeleted => misdirect_deletions(&mut commit, ""),
            Mutant::NeverExpires => never_expire(&mut commit),
            Mutant::ForgetsOperations => misdirect_records(&mut commit, "~operation/"),
            Mutant::ForgetsScopeOperations => misdirect_records(&mut commit, "~scope-operation/"),
            Mutant::SnapshotsTheFuture => change_number(&mut commit, "~snapshot/", "version")?,
            Mutant::RoutesTooFar if self.now_and_then(Mutant::RoutesTooFar, 10) => {
                change_number(&mut commit, "~route/", "position")?;
            }
            Mutant::KeepsQuota => keep_quota(&mut commit),
            Mutant::LosesQuotaWithHolder => misdirect_records(&mut commit, "~claim-bucket/"),
            Mutant::DrawsForHalf => {
                for write in &mut commit.writes {
                    if let Change::Rate(rate) = &mut write.change {
                        rate.cost /= 2;
                    }
                }
            }
            Mutant::KeepsPersonalData => misdirect_deletions(&mut commit, "~personal/"),
            Mutant::ForgetsErasures => commit.guards.retain(|guard| {
                !matches!(guard, Guard::Record { key, .. } if key.as_str().starts_with("~erased/"))
            }),
            _ => {}
        }
        self.store.commit(commit).await
    }

    /// Commits with events, now and then.
    fn chance(&self, commit: &Commit, one_in: u64) -> bool {
        !commit.appends.is_empty() && self.now_and_then(self.mutant, one_in)
    }

    async fn usurp(&self, commit: &mut Commit) -> Result<()> {
        let settled = commit.settlements.iter_mut().map(|settlement| &mut settlement.lease);
        for lease in settled.chain(&mut commit.fences) {
            let found = self.store.item(&lease.item).await?;
            lease.fence = found.and_then(|item| item.fence).unwrap_or(lease.fence);
        }
        Ok(())
    }

    async fn is_behind(&self, stream: &StreamName, expected: ExpectedVersion) -> Result<bool> {
        let found = self.store.head(stream).await?.state.version();
        Ok(match expected {
            ExpectedVersion::Exact(version) => found != Some(version),
            ExpectedVersion::NoStream => found.is_some(),
            _ => false,
        })
    }

    async fn judge_versions_first(&self, commit: &mut Commit) -> Result<()> {
        for append in &mut commit.appends {
            if self.is_behind(&append.stream, append.expected).await? {
                append.events.iter_mut().for_each(|event| event.id = EventId::fresh());
                commit.id = None;
            }
        }
        Ok(())
    }

    async fn refresh_events(&self, commit: &mut Commit) -> Result<()> {
        if commit.id.is_none() {
            for append in &mut commit.appends {
                append.events.iter_mut().for_each(|event| event.id = EventId::fresh());
            }
        }
        Ok(())
    }

    async fn write_again(&self, commit: &Commit) -> Result<()> {
        let mut again = commit.clone();
        again.id = None;
        again.settlements.clear();
        again.fences.clear();
        again.trims.clear();
        again.guards.clear();
        ignore_versions(&mut again);
        again.writes.iter_mut().for_each(|write| write.expected = ExpectedRevision::Any);
        let events = again.appends.iter_mut().flat_map(|append| &mut append.events);
        events.for_each(|event| event.id = EventId::fresh());
        self.store.commit(again).await.map(drop)
    }

    async fn hide_conflict(&self, commit: Commit) -> Result<CommitOutcome> {
        let outcome = self.store.commit(commit.clone()).await?;
        match outcome {
            CommitOutcome::Conflict(_) if self.now_and_then(Mutant::HidesConflicts, 10) => {
                let mut elsewhere = commit;
                misdirect(&mut elsewhere);
                self.store.commit(elsewhere).await
            }
            outcome => Ok(outcome),
        }
    }

    async fn add_in_two_steps(&self, commit: &mut Commit) -> Result<()> {
        for write in &mut commit.writes {
            let Change::Add { delta, .. } = write.change else { continue };
            if write.key.as_str().starts_with('~') {
                continue;
            }
            let before = self.store.get_one(&write.key).await?.into_live();
            let before: i64 = before.map(|r| r.value.to()).transpose()?.unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(2)).await;
            let value = RawJson::new(&(before + delta))?;
            write.change = Change::Put { value, expires: None };
        }
        Ok(())
    }
}

fn ignore_versions(commit: &mut Commit) {
    commit.appends.iter_mut().for_each(|append| append.expected = ExpectedVersion::Any);
    commit.guards.retain(|guard| matches!(guard, Guard::Record { .. }));
}

fn bounds(commit: &mut Commit) -> impl Iterator<Item = &mut Bounds> {
    commit.writes.iter_mut().filter_map(|write| match &mut write.change {
        Change::Add { within, .. } => Some(within),
        _ => None,
    })
}

/// Where nothing looks. The answer keeps its shape.
fn elsewhere(key: &RecordKey) -> RecordKey {
    RecordKey::new(format!("~mutant/{}", key.as_str().len())).expect("it is short and plain")
}

fn misdirect(commit: &mut Commit) {
    misdirect_records(commit, "");
    misdirect_events(commit);
    commit.id = None;
    commit.fences.clear();
    commit.guards.clear();
    commit.trims.clear();
    commit.wakes.clear();
    commit.settlements.clear();
    commit.restores.clear();
    if commit.parts() == 0 {
        let key = RecordKey::new("~mutant").expect("it is short and plain");
        commit.writes.push(RecordWrite::delete(&key, ExpectedRevision::Any));
    }
}

fn misdirect_records(commit: &mut Commit, prefix: &str) {
    for (nth, write) in commit.writes.iter_mut().enumerate() {
        if write.key.as_str().starts_with(prefix) {
            let key = format!("{}/{nth}", elsewhere(&write.key));
            write.key = RecordKey::new(key).expect("it is short and plain");
            write.expected = ExpectedRevision::Any;
            if let Change::Put { expires, .. } = &mut write.change {
                *expires = None;
            }
        }
    }
}

fn misdirect_events(commit: &mut Commit) {
    for (nth, append) in commit.appends.iter_mut().enumerate() {
        append.stream = StreamName::new(format!("~mutant-{nth}")).expect("it is short and plain");
        append.expected = ExpectedVersion::Any;
        append.then = AfterAppend::StayOpen;
    }
}

fn lose_wakes(commit: &mut Commit) {
    if commit.parts() > commit.wakes.len() {
        commit.wakes.clear();
    }
}

fn trim_more(commit: &mut Commit) -> Result<()> {
    for trim in &mut commit.trims {
        trim.through = Version::new(trim.through.get() + 1)?;
    }
    Ok(())
}

fn misdirect_deletions(commit: &mut Commit, prefix: &str) {
    for write in &mut commit.writes {
        if write.change == Change::Delete && write.key.as_str().starts_with(prefix) {
            write.key = elsewhere(&write.key);
            write.expected = ExpectedRevision::Any;
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    commit.writes.retain(|write| seen.insert(write.key.clone()));
}

fn never_expire(commit: &mut Commit) {
    for write in &mut commit.writes {
        match &mut write.change {
            Change::Put { expires, .. } | Change::Add { expires, .. } => *expires = None,
            _ => {}
        }
    }
}

/// Adds one to a number in the records below this prefix.
fn change_number(commit: &mut Commit, prefix: &str, field: &str) -> Result<()> {
    for write in &mut commit.writes {
        if let Change::Put { value, .. } = &mut write.change
            && write.key.as_str().starts_with(prefix)
            && let Ok(mut record) = value.to::<serde_json::Value>()
            && let Some(number) = record[field].as_u64()
        {
            record[field] = (number + 1).into();
            *value = RawJson::new(&record)?;
        }
    }
    Ok(())
}

fn keep_quota(commit: &mut Commit) {
    for write in &mut commit.writes {
        if let Change::Add { delta, .. } = &mut write.change
            && write.key.as_str().starts_with("~claim-")
            && *delta < 0
        {
            *delta = 0;
        }
    }
}
