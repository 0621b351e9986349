//! Where a run stands, in words.

use tidelock::Timestamp;
use tidelock::runs::{PendingWait, RunOutcome, RunStatus};

use crate::output::{ago, ahead, json_line};

/// A line for each thing to be said.
pub(crate) fn described(standing: &RunStatus, now: Timestamp) -> Vec<String> {
    match standing {
        RunStatus::Running { worker, until, .. } => {
            vec![format!("worker {worker:?} drives it; its lease ends {}", ahead(*until, now))]
        }
        RunStatus::Due { since } => {
            vec![format!(
                "it has been due for a worker with its workflow since {}",
                ago(*since, now)
            )]
        }
        RunStatus::Waiting { on, until } => waiting(on, *until, now),
        RunStatus::Parked { error, again_at } => {
            let again = again_at.map_or("not by itself".to_owned(), |again| ahead(again, now));
            vec![format!("parked: {error}"), format!("it is tried again {again}")]
        }
        RunStatus::Ended(outcome) => vec![ended(outcome)],
        other => vec![format!("{other:?}")],
    }
}

fn waiting(on: &[PendingWait], until: Option<Timestamp>, now: Timestamp) -> Vec<String> {
    let mut lines: Vec<String> = on.iter().map(|awaited| waits_for(awaited, now)).collect();
    lines.extend(until.map(|until| format!("it goes on by itself {}", ahead(until, now))));
    if lines.is_empty() {
        lines.push("it waits".to_owned());
    }
    lines
}

fn waits_for(awaited: &PendingWait, now: Timestamp) -> String {
    match awaited {
        PendingWait::Time { name, until } => {
            format!("waits for time, in {:?}: {}", name.as_str(), ahead(*until, now))
        }
        PendingWait::Signal { name, signal, .. } => {
            format!("waits for signal {signal:?}, in {:?}", name.as_str())
        }
        PendingWait::Child { name, run } => {
            format!("waits for run {:?}, in {:?}", run.as_str(), name.as_str())
        }
        PendingWait::Attempt { step, failed, error, again_at } => format!(
            "step {:?} failed {failed} times and is tried again {}: {error}",
            step.as_str(),
            ahead(*again_at, now)
        ),
        PendingWait::Verdict { step } => {
            format!(
                "nobody knows whether step {:?} was done: say so with tidelock resolve",
                step.as_str()
            )
        }
        other => format!("{other:?}"),
    }
}

fn ended(outcome: &RunOutcome) -> String {
    match serde_json::to_string(outcome) {
        Ok(text) => format!("ended: {}", json_line(&text)),
        Err(error) => format!("ended, and its outcome cannot be shown: {error}"),
    }
}
