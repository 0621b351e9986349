//! A reminder that sleeps for days, and survives the end of its process.
//!
//! The run sleeps until three days before an appointment, and again until an hour before. Nothing
//! is held in the meantime: no thread, no connection, no timer in memory. The first process ends
//! while the run sleeps, days pass (here by advancing the store's clock), and another process
//! resumes it.
//!
//! ```sh
//! cargo run -p tidelock --example reminder
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::App;
use tidelock::Timestamp;
use tidelock::prelude::*;
use tidelock::runs::{PendingWait, RunStatus};
use tidelock::store::{ManualClock, MemoryStore, WorkerName};
use tidelock::worker::{PollInterval, WorkerOptions};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);

const REMIND: Workflow<Appointment, Vec<String>> = Workflow::new("remind");

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Appointment {
    who: String,
    in_days: u32,
}

async fn remind(ctx: RunCtx, appointment: Appointment) -> Result<Vec<String>> {
    let booked = ctx.now("booked").await?;
    let ahead = DAY * appointment.in_days;
    ctx.sleep_until("days before", booked.plus(ahead.saturating_sub(3 * DAY))).await?;
    let early = ctx.step("first letter", |_key| write(&appointment.who, "in three days")).await?;
    ctx.sleep_until("hour before", booked.plus(ahead.saturating_sub(HOUR))).await?;
    let late = ctx.step("second letter", |_key| write(&appointment.who, "in an hour")).await?;
    Ok(vec![early, late])
}

async fn write(who: &str, when: &str) -> Result<String, HandlerError> {
    println!("to {who}: your appointment is {when}");
    Ok(format!("{when}, {who}"))
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let clock = ManualClock::at(Timestamp::from_micros(1_800_000_000_000_000)?);
    let tidelock = Tidelock::over(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));

    // The first process starts the run, drives it into its sleep, and ends.
    let appointment = Appointment { who: "Ada".into(), in_days: 30 };
    let run = tidelock.start(REMIND, "appointment-7", &appointment).version(1).await?;
    let asleep = async || Ok(matches!(run.status().await?, RunStatus::Waiting { .. }));
    drive(&tidelock, asleep).await?;
    let RunStatus::Waiting { on, .. } = run.status().await? else {
        return Err("it sleeps".into());
    };
    assert!(
        matches!(&on[..], [PendingWait::Time { name, .. }] if name.as_str() == "days before"),
        "{on:?}"
    );

    // Four weeks later there is another process.
    clock.advance(27 * DAY + HOUR);
    let waits_for_the_hour = async || match run.status().await? {
        RunStatus::Waiting { on, .. } => Ok(on.iter().any(
            |on| matches!(on, PendingWait::Time { name, .. } if name.as_str() == "hour before"),
        )),
        _ => Ok(false),
    };
    drive(&tidelock, waits_for_the_hour).await?;
    clock.advance(3 * DAY);
    drive(&tidelock, async || Ok(run.get().await?.state.is_ended())).await?;
    let letters = run.result().await?;
    assert_eq!(letters, ["in three days, Ada", "in an hour, Ada"]);
    Ok(())
}

/// Runs a process until the condition holds.
async fn drive(tidelock: &Tidelock, is_so: impl AsyncFn() -> Result<bool>) -> Result<()> {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(app(tidelock)?.run_until(async { drop(stopped.await) }));
    while !is_so().await? {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let _ended = stop.send(());
    running.await??;
    Ok(())
}

fn app(tidelock: &Tidelock) -> Result<App> {
    // The clock is advanced without notice, so the worker polls often.
    let mut options = WorkerOptions::new(WorkerName::new("reminders")?);
    options.pace = PollInterval { least: Duration::from_millis(5), per_queue: Duration::ZERO };
    Ok(tidelock.app().workflow(REMIND, remind).worker(options).build()?)
}
