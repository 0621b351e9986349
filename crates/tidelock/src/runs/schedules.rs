//! Schedules: runs started, and jobs enqueued, by cron patterns.
//!
//! A schedule is a record, and a work item that is due at its next occurrence. A worker leases the
//! item, starts the run and advances the record in one commit. The run's id contains the
//! occurrence. So concurrent schedulers, or one that died and its successor, start one run per
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
    pub(crate) fn new(tidelock: Tidelock) -> Self {
        Self { tidelock }
    }

    /// Creates or changes a schedule.
    ///
    /// An identical schedule changes nothing, so a program can call this at every start: missed
    /// occurrences are still caught up.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock::prelude::*;
    /// use tidelock::runs::{Overlap, Schedule};
    ///
    /// let tidelock = Tidelock::open("memory:").await?;
    /// let nightly = Schedule::cron("0 3 * * *")
    ///     .zone("Europe/Berlin")
    ///     .starts("report", "yesterday")
    ///     .overlap(Overlap::Skip);
    /// let schedule = tidelock.schedules().put("nightly-report", nightly).await?;
    /// println!("next: {:?}", schedule.next);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns an error if the schedule is not valid, or the store's error.
    pub async fn put(
        &self,
        name: impl AsRef<str>,
        schedule: Schedule,
    ) -> Result<ScheduleInfo, ScheduleError> {
        let (name, plan) = (ScheduleName::new(name.as_ref())?, schedule.plan()?);
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

    /// Pauses a schedule: no occurrence starts a run until it is [resumed](Self::resume).
    ///
    /// # Errors
    /// [`NoSchedule`](ScheduleError::NoSchedule), or the store's error.
    pub async fn pause(&self, name: impl AsRef<str>) -> Result<ScheduleInfo, ScheduleError> {
        let name = ScheduleName::new(name.as_ref())?;
        self.change(&name, |there, _| Ok(Stored { paused: true, ..existing(&name, there)? })).await
    }

    /// Resumes a schedule at its next occurrence. Occurrences during the pause are not caught up.
    ///
    /// # Errors
    /// [`NoSchedule`](ScheduleError::NoSchedule), or the store's error.
    pub async fn resume(&self, name: impl AsRef<str>) -> Result<ScheduleInfo, ScheduleError> {
        let name = ScheduleName::new(name.as_ref())?;
        self.change(&name, |there, now| {
            let stored = existing(&name, there)?;
            let next =
                if stored.paused { stored.plan.timetable()?.after(now) } else { stored.next };
            Ok(Stored { paused: false, next, ..stored })
        })
        .await
    }

    /// Starts a run or enqueues a job at once, whatever the pattern and the overlap policy say, and
    /// even if the schedule is paused. Its occurrences are not affected.
    ///
    /// # Errors
    /// [`NoSchedule`](ScheduleError::NoSchedule), an error about the run, or the store's error.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let mails = Schedule::cron("0 3 * * *").enqueues_in("mail", "to all");
    /// tidelock.schedules().put("mails", mails).await?;
    /// tidelock.schedules().trigger("mails").await?; // once more, now
    /// # Ok(())
    /// # }
    /// ```
    pub async fn trigger(&self, name: impl AsRef<str>) -> Result<ScheduleInfo, ScheduleError> {
        let name = ScheduleName::new(name.as_ref())?;
        let contended =
            |attempts| ScheduleError::Contended { schedule: name.to_string(), attempts };
        let triggered = carry_out(&self.tidelock, contended, || async {
            let store = self.tidelock.store();
            let kept = Kept::of(&store.get_one(&keys::schedule(&name)).await?)?;
            let (there, now) = (existing(&name, kept.as_ref())?, store.now().await?);
            let run = keys::triggered_run(&name, now);
            let begun = firing::begin(&self.tidelock, &name, &there, run.clone()).await;
            let moved = Stored { last: Some(run), ..there };
            let mut commit = parts(&name, kept.as_ref(), &moved)?;
            firing::add(&mut commit, begun.map_err(Box::new)?);
            Ok::<_, ScheduleError>(Proposal::commit(commit, moved))
        });
        Ok(triggered.await?.info(&name))
    }

    /// Deletes a schedule, and returns whether it existed. Runs that it started are left alone.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn delete(&self, name: impl AsRef<str>) -> Result<bool, ScheduleError> {
        let key = keys::schedule(&ScheduleName::new(name.as_ref())?);
        let was_there = self.tidelock.store().get_one(&key).await?.live().is_some();
        let removal = Commit::new().write(RecordWrite::delete(&key, ExpectedRevision::Any));
        let _removed = self.tidelock.store().commit(removal).await?;
        Ok(was_there)
    }

    /// Returns one schedule, if it exists.
    ///
    /// # Errors
    /// Returns the store's error, or an error if the name is not valid.
    pub async fn get(&self, name: impl AsRef<str>) -> Result<Option<ScheduleInfo>, ScheduleError> {
        let name = ScheduleName::new(name.as_ref())?;
        let kept = Kept::of(&self.tidelock.store().get_one(&keys::schedule(&name)).await?)?;
        Ok(kept.map(|kept| kept.stored.info(&name)))
    }

    /// Lists all schedules, by name.
    ///
    /// # Errors
    /// Returns the store's error.
    ///
    /// # Examples
    /// ```
    /// # use tidelock::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// for schedule in tidelock.schedules().list().await? {
    ///     println!("{}", schedule.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn list(&self) -> Result<Vec<ScheduleInfo>, ScheduleError> {
        let mut records = self.tidelock.store().rows(RecordQuery::prefix(keys::schedule_records()));
        let mut listed = Vec::new();
        while let Some(record) = records.next().await? {
            let name = ScheduleName::new(&record.key.as_str()[keys::schedule_records().len()..])?;
            listed.push(record.value.to::<Stored>()?.info(&name));
        }
        Ok(listed)
    }

    /// Applies `change` to the stored schedule with optimistic concurrency.
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

/// The commit of a schedule: its record, and its item due at the next occurrence.
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
