//! The status of a run, as text.

use tidelock::Timestamp;
use tidelock::runs::{PendingWait, RunOutcome, RunStatus};

use crate::output::{ago, ahead, json_line};

/// One line per fact.
pub(crate) fn described(status: &RunStatus, now: Timestamp) -> Vec<String> {
    match status {
        RunStatus::Running { worker, until, .. } => {
            vec![format!("driven by worker {worker:?}; its lease expires {}", ahead(*until, now))]
        }
        RunStatus::Due { since } => {
            vec![format!("waiting for a worker with its workflow since {}", ago(*since, now))]
        }
        RunStatus::Waiting { on, until } => waiting(on, *until, now),
        RunStatus::Parked { error, again_at } => {
            let again =
                again_at.map_or("not by itself: resume it".to_owned(), |again| ahead(again, now));
            vec![format!("parked: {error}"), format!("next attempt: {again}")]
        }
        RunStatus::Ended(outcome) => vec![ended(outcome)],
        other => vec![format!("{other:?}")],
    }
}

fn waiting(on: &[PendingWait], until: Option<Timestamp>, now: Timestamp) -> Vec<String> {
    let mut lines: Vec<String> = on.iter().map(|awaited| waits_for(awaited, now)).collect();
    lines.extend(until.map(|until| format!("it continues {}", ahead(until, now))));
    if lines.is_empty() {
        lines.push("waiting".to_owned());
    }
    lines
}

fn waits_for(awaited: &PendingWait, now: Timestamp) -> String {
    match awaited {
        PendingWait::Time { name, until } => {
            format!("sleeps, in {:?}: {}", name.as_str(), ahead(*until, now))
        }
        PendingWait::Signal { name, signal, .. } => {
            format!("waits for signal {signal:?}, in {:?}", name.as_str())
        }
        PendingWait::Child { name, run } => {
            format!("waits for run {:?}, in {:?}", run.as_str(), name.as_str())
        }
        PendingWait::Attempt { step, failed, error, again_at } => format!(
            "step {:?} failed {failed} times and is retried {}: {error}",
            step.as_str(),
            ahead(*again_at, now)
        ),
        PendingWait::Verdict { step } => {
            format!("step {:?} has an unknown outcome: decide with tidelock resolve", step.as_str())
        }
        other => format!("{other:?}"),
    }
}

fn ended(outcome: &RunOutcome) -> String {
    match serde_json::to_string(outcome) {
        Ok(text) => format!("ended: {}", json_line(&text)),
        Err(error) => format!("ended; its outcome cannot be read: {error}"),
    }
}
