//! The traces of runs in the store: their histories, their counters, and the open ones.

use std::collections::BTreeMap;

use tidelock::Tidelock;
use tidelock::runs::{RunFilter, RunState};
use tidelock::store::StoredEvent;

use crate::caller::{Bug, Caller, store_result};
use crate::evidence::{read_streams, read_totals};
use crate::space::Space;

/// Number of runs read per request.
const AT_ONCE: usize = 500;

#[derive(Debug, Clone)]
pub(crate) struct RunAudit {
    /// The entries of each run, in order.
    pub(crate) histories: BTreeMap<String, Vec<StoredEvent>>,
    /// The counter of each run.
    pub(crate) counted: BTreeMap<String, i64>,
    /// Runs that are listed as open.
    pub(crate) open: Vec<String>,
}

impl RunAudit {
    /// Reads the store, after the last write.
    pub(crate) async fn read(caller: &Caller, space: &Space) -> Result<Self, Bug> {
        let streams = read_streams(caller, space.histories()).await?;
        let histories = streams
            .into_iter()
            .filter_map(|(stream, events)| Some((space.run_of(&stream)?, events)));
        let histories: BTreeMap<String, Vec<StoredEvent>> = histories.collect();
        let runs: Vec<&String> = histories.keys().collect();
        let mut counted = BTreeMap::new();
        for runs in runs.chunks(AT_ONCE) {
            let totals =
                read_totals(caller, runs.iter().map(|run| space.counted(run)).collect()).await?;
            counted.extend(runs.iter().map(|run| ((*run).clone(), totals[&space.counted(run)])));
        }
        Ok(Self { counted, open: open(caller, space).await?, histories })
    }
}

/// The open runs, up to one page.
pub(crate) async fn open(caller: &Caller, space: &Space) -> Result<Vec<String>, Bug> {
    let runs = Tidelock::over(caller.store.clone()).runs();
    let filter = RunFilter::all().workflow(space.workflow()).state(RunState::Open);
    let list = || async { store_result(runs.list(&filter).limit(AT_ONCE).await) };
    let page = caller.insist("list runs", list).await?;
    Ok(page.items.into_iter().map(|run| run.run.to_string()).collect())
}
