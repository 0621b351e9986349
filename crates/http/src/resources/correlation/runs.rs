//! The runs of a correlation: those that one of its events started, and beside them its other
//! events.

use std::collections::BTreeMap;

use tidelock::problem::Problem;
use tidelock::runs::{RunError, RunId, RunInfo, run_started_by};
use tidelock::store::StoredEvent;

use super::part::CorrelationPartDto;
use crate::app_state::AppState;

/// The maximum number of runs looked up per request; the others are represented by the event that
/// started them.
const LOOKUPS: usize = 100;

/// Every event; those that started a run as that run.
pub(super) async fn parts(
    served: &AppState,
    events: &[StoredEvent],
) -> Result<Vec<CorrelationPartDto>, Problem> {
    let mut runs = BTreeMap::new();
    for run in events.iter().filter_map(begun).take(LOOKUPS) {
        match served.tidelock().runs().run(run.as_str()).get().await {
            Ok(info) => _ = runs.insert(run, info),
            Err(RunError::Store(error)) => return Err(error.into()),
            // A run that was removed in the meantime has no info.
            Err(_) => {}
        }
    }
    Ok(events.iter().map(|event| part(event, &runs)).collect())
}

fn part(event: &StoredEvent, runs: &BTreeMap<RunId, RunInfo>) -> CorrelationPartDto {
    match begun(event).and_then(|run| runs.get(&run)) {
        Some(run) => CorrelationPartDto::of_run(run, event),
        None => CorrelationPartDto::of_event(event),
    }
}

/// The run that an event started: its history begins with it.
fn begun(event: &StoredEvent) -> Option<RunId> {
    run_started_by(event)
}
