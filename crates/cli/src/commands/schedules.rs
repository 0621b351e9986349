//! `tidelock schedules`: lists schedules, and creates, pauses, resumes, triggers or deletes one.

use serde::Serialize;
use tidelock::runs::{CatchUp, Overlap, Schedule, ScheduleError, ScheduleInfo};
use tidelock::{Tidelock, Timestamp};

use super::Cx;
use super::confirm::confirm;
use crate::args::{ScheduleContent, SchedulesArgs};
use crate::failure::{Failure, Result};
use crate::output::{TableRow, ahead};

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    schedule: ScheduleInfo,
    #[serde(skip)]
    now: Timestamp,
}

pub(crate) async fn run(args: SchedulesArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let schedules = Tidelock::over(store).schedules();
    let Some(name) = &args.schedule else {
        let listed = schedules.list().await.map_err(failure)?;
        if listed.is_empty() {
            return Ok(out.note(&format!("no schedule in {}", store_url.shown()))?);
        }
        let rows: Vec<Row> = listed.into_iter().map(|schedule| Row { schedule, now }).collect();
        return Ok(out.list(&rows)?);
    };
    if args.verb.delete {
        confirm(&format!("Schedule {name:?} is deleted."), args.yes)?;
        return match schedules.delete(name).await.map_err(failure)? {
            true => Ok(out.done("deleted", &format!("schedule {name:?} is deleted"))?),
            false => Err(missing(name)),
        };
    }
    let schedule = if let Some(pattern) = args.verb.cron {
        schedules.put(name, schedule(pattern, args.content)?).await
    } else if args.verb.pause {
        schedules.pause(name).await
    } else if args.verb.resume {
        schedules.resume(name).await
    } else if args.verb.trigger {
        schedules.trigger(name).await
    } else {
        let found = schedules.get(name).await.map_err(failure)?;
        Ok(found.ok_or_else(|| missing(name))?)
    };
    Ok(out.one(&Row { schedule: schedule.map_err(failure)?, now })?)
}

/// The schedule that the arguments describe.
fn schedule(pattern: String, content: ScheduleContent) -> Result<Schedule> {
    let schedule = Schedule::cron(pattern).zone(content.zone);
    let schedule = match (content.workflow, content.queue) {
        (Some(workflow), _) => schedule.starts(workflow, &content.input),
        (None, Some(queue)) => schedule.enqueues_in(queue.as_str(), &content.input),
        (None, None) => {
            let what = "a schedule starts runs or enqueues jobs";
            return Err(Failure::usage(what, "--workflow or --queue, and --input"));
        }
    };
    let schedule = match content.tolerance {
        Some(tolerance) => schedule.catch_up(CatchUp::Skip { tolerance }),
        None => schedule,
    };
    Ok(schedule.overlap(if content.skip_overlap { Overlap::Skip } else { Overlap::Allow }))
}

fn missing(name: &str) -> Failure {
    failure(ScheduleError::NoSchedule { schedule: name.to_owned() })
}

fn failure(error: ScheduleError) -> Failure {
    match error {
        ScheduleError::Store(error) => error.into(),
        error => {
            Failure::refused(error.to_string(), "tidelock schedules, to see the existing ones")
        }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["schedule", "pattern", "zone", "starts", "next", "last"];

    fn cells(&self) -> Vec<String> {
        let schedule = &self.schedule;
        let starts = match (&schedule.workflow, &schedule.queue) {
            (Some(workflow), _) => format!("run of {workflow}"),
            (None, Some(queue)) => format!("job in {queue}"),
            (None, None) => String::new(),
        };
        let next = match (schedule.paused, schedule.next) {
            (true, _) => "paused".to_owned(),
            (false, Some(next)) => ahead(next, self.now),
            (false, None) => "never".to_owned(),
        };
        let run = schedule.last_run.as_ref().map(ToString::to_string);
        vec![
            schedule.name.to_string(),
            schedule.pattern.clone(),
            schedule.zone.clone(),
            starts,
            next,
            run.or_else(|| schedule.last_job.clone()).unwrap_or_default(),
        ]
    }
}
