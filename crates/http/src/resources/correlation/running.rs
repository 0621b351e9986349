//! The runs of a conversation: those that one of its events began, and beside them its other
//! events.

use std::collections::BTreeMap;

use tidelock::StoredEvent;
use tidelock::runs::{RunError, RunId, RunInfo, run_started_by};

use super::part::Part;
use crate::app_state::AppState;
use crate::problem::Problem;

/// Runs that one request looks up, at most; those beyond are shown by the event that began them.
const LOOKUPS: usize = 100;

/// Each event; those that began a run as that run.
pub(super) async fn parts(served: &AppState, events: &[StoredEvent]) -> Result<Vec<Part>, Problem> {
    let mut runs = BTreeMap::new();
    for run in events.iter().filter_map(begun).take(LOOKUPS) {
        match served.tidelock().runs().run(run.as_str()).get().await {
            Ok(info) => _ = runs.insert(run, info),
            Err(RunError::Store(error)) => return Err(error.into()),
            // One that was removed meanwhile has nothing more to be told about.
            Err(_) => {}
        }
    }
    Ok(events.iter().map(|event| part(event, &runs)).collect())
}

fn part(event: &StoredEvent, runs: &BTreeMap<RunId, RunInfo>) -> Part {
    match begun(event).and_then(|run| runs.get(&run)) {
        Some(run) => Part::of_run(run, event),
        None => Part::of_event(event),
    }
}

/// The run that an event began: its history begins with it.
fn begun(event: &StoredEvent) -> Option<RunId> {
    run_started_by(event)
}
