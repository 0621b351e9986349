//! Runs that are started by the calendar.
//!
//! A schedule is a record, and a work item that is due at its next occurrence; whoever serves
//! schedules takes it then, starts the run and moves the record in one commit. The run's id has the
//! occurrence in it. So two schedulers, or one that died and its successor, start one run for each
//! occurrence.

mod catch_up;
mod error;
mod firing;
mod schedule;
mod stored;
mod timetable;

use tidelock_store::{
    Commit, ExpectedRevision, RawJson, RecordQuery, RecordWrite, StoreExt, Wake, When,
};

use super::client::proposal::{Proposal, carry_out};
use super::keys;
use super::names::ScheduleName;
use crate::handle::Tidelock;
use stored::{Kept, Stored};

pub use catch_up::CatchUp;
pub use error::ScheduleError;
pub(crate) use firing::Firing;
pub use schedule::{Overlap, Schedule};
pub use stored::ScheduleInfo;

/// The schedules of a store.
#[derive(Debug, Clone)]
pub struct Schedules {
    tidelock: Tidelock,
}

impl Schedules {
    pub(super) fn new(tidelock: Tidelock) -> Self {
        Self { tidelock }
    }

    /// Sets up a schedule, or changes it. Said again in the same words it changes nothing, so a
    /// program can say it whenever it starts: what was missed meanwhile is still made up for.
    ///
    /// # Errors
    /// What is wrong with the schedule, or what the store says.
    pub async fn put(&self, name: &str, schedule: Schedule) -> Result<ScheduleInfo, ScheduleError> {
        let (name, plan) = (ScheduleName::new(name)?, schedule.plan()?);
        let table = plan.timetable()?;
        self.change(&name, |there, now| {
            let there = there.map(|kept| kept.stored.clone());
            let stored = Stored::revised(there, plan.clone(), || table.after(now));
            match stored.next {
                None => Err(ScheduleError::Never { pattern: plan.pattern.clone() }),
                Some(_) => Ok(stored),
            }
        })
        .await
    }

    /// No occurrence starts a run until the schedule is [unpaused](Self::resume).
    ///
    /// # Errors
    /// [`NoSchedule`](ScheduleError::NoSchedule), or what the store says.
    pub async fn pause(&self, name: &str) -> Result<ScheduleInfo, ScheduleError> {
        let name = ScheduleName::new(name)?;
        self.change(&name, |there, _| Ok(Stored { paused: true, ..existing(&name, there)? })).await
    }

    /// The schedule goes on with its next occurrence. Those that came while it was paused are not
    /// made up for.
    ///
    /// # Errors
    /// [`NoSchedule`](ScheduleError::NoSchedule), or what the store says.
    pub async fn resume(&self, name: &str) -> Result<ScheduleInfo, ScheduleError> {
        let name = ScheduleName::new(name)?;
        self.change(&name, |there, now| {
            let stored = existing(&name, there)?;
            let next =
                if stored.paused { stored.plan.timetable()?.after(now) } else { stored.next };
            Ok(Stored { paused: false, next, ..stored })
        })
        .await
    }

    /// Takes a schedule away; says whether there was one. Runs that it started are left alone.
    ///
    /// # Errors
    /// What the store says.
    pub async fn delete(&self, name: &str) -> Result<bool, ScheduleError> {
        let key = keys::schedule(&ScheduleName::new(name)?);
        let was_there = self.tidelock.store().get_one(&key).await?.live().is_some();
        let removal = Commit::new().write(RecordWrite::delete(&key, ExpectedRevision::Any));
        let _removed = self.tidelock.store().commit(removal).await?;
        Ok(was_there)
    }

    /// One schedule.
    ///
    /// # Errors
    /// What the store says.
    pub async fn get(&self, name: &str) -> Result<Option<ScheduleInfo>, ScheduleError> {
        let name = ScheduleName::new(name)?;
        let kept = Kept::of(&self.tidelock.store().get_one(&keys::schedule(&name)).await?)?;
        Ok(kept.map(|kept| kept.stored.info(&name)))
    }

    /// All schedules, by name.
    ///
    /// # Errors
    /// What the store says.
    pub async fn list(&self) -> Result<Vec<ScheduleInfo>, ScheduleError> {
        let mut records = self.tidelock.store().rows(RecordQuery::prefix(keys::schedule_records()));
        let mut listed = Vec::new();
        while let Some(record) = records.next().await? {
            let name = ScheduleName::new(&record.key.as_str()[keys::schedule_records().len()..])?;
            listed.push(record.value.to::<Stored>()?.info(&name));
        }
        Ok(listed)
    }

    /// Makes the schedule what `change` says of what is there, provided that nobody else changed it
    /// meanwhile.
    async fn change(
        &self,
        name: &ScheduleName,
        change: impl Fn(Option<&Kept>, tidelock_store::Timestamp) -> Result<Stored, ScheduleError>,
    ) -> Result<ScheduleInfo, ScheduleError> {
        let contended =
            |attempts| ScheduleError::Contended { schedule: name.to_string(), attempts };
        let changed = carry_out(&self.tidelock, contended, || async {
            let store = self.tidelock.store();
            let kept = Kept::of(&store.get_one(&keys::schedule(name)).await?)?;
            let stored = change(kept.as_ref(), store.now().await?)?;
            match kept {
                Some(kept) if kept.stored == stored => {
                    Ok::<_, ScheduleError>(Proposal::Answer(stored))
                }
                kept => Ok(Proposal::commit(parts(name, kept.as_ref(), &stored)?, stored)),
            }
        });
        Ok(changed.await?.info(name))
    }
}

/// The commit that makes a schedule this: its record, and its item due at the next occurrence.
fn parts(
    name: &ScheduleName,
    there: Option<&Kept>,
    stored: &Stored,
) -> Result<Commit, ScheduleError> {
    let expected =
        there.map_or(ExpectedRevision::Absent, |kept| ExpectedRevision::Revision(kept.revision));
    let commit = Commit::new().write(RecordWrite::put(
        &keys::schedule(name),
        expected,
        RawJson::new(stored)?,
    ));
    let wake = stored.next.map(|next| Wake::at(keys::schedule_item(name), When::At(next)));
    Ok(wake.into_iter().fold(commit, Commit::wake))
}

fn existing(name: &ScheduleName, there: Option<&Kept>) -> Result<Stored, ScheduleError> {
    let stored = there.map(|kept| kept.stored.clone());
    stored.ok_or_else(|| ScheduleError::NoSchedule { schedule: name.to_string() })
}
