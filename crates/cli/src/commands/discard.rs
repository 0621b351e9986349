//! `tidelock discard`: ends jobs without having done them.

use serde::Serialize;
use tidelock::jobs::{JobFilter, JobState, Jobs};
use tidelock::store::{ItemFilter, Store};
use tidelock::{Missing, Tidelock};

use super::confirm::confirm;
use super::{Cx, jobs};
use crate::args::DiscardArgs;
use crate::failure::Result;
use crate::output::Style;

/// The result, as JSON.
#[derive(Debug, Serialize)]
struct Done {
    done: &'static str,
    changed: u64,
}

pub(crate) async fn run(args: DiscardArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let jobs = Tidelock::over(store.clone()).jobs();
    let filter = jobs::selected(Some(&args.queue), args.key.clone());
    let which = if args.unfinished { "unfinished" } else { "blocked" };
    let items = ItemFilter::queue(args.queue.as_str()).key(args.key.unwrap_or_default());
    if args.dry_run {
        let count = count(&jobs, &filter, args.unfinished).await?;
        if count == 0 {
            check_names(&*store, &items).await?;
        }
        let what = format!("dry run: {count} {which} jobs would be discarded, nothing was done");
        return Ok(out.note(&what)?);
    }
    let queue = args.queue.as_str();
    confirm(&format!("The selected {which} jobs of queue {queue:?} are ended."), args.yes)?;
    let changed = match args.unfinished {
        true => jobs.cancel(&filter, &args.reason).await?,
        false => jobs.discard(&filter, &args.reason).await?,
    };
    if changed == 0 {
        check_names(&*store, &items).await?;
    }
    if out.is_json() {
        return Ok(out.json(&Done { done: "discarded", changed })?);
    }
    Ok(out.line(Style::Plain, &format!("discarded: {changed} jobs"))?)
}

/// If nothing was selected because a given name does not exist, that is an error.
async fn check_names(store: &dyn Store, items: &ItemFilter) -> Result<()> {
    match Missing::among_items(store, items).await? {
        Some(missing) => Err(missing.into()),
        None => Ok(()),
    }
}

async fn count(jobs: &Jobs, filter: &JobFilter, unfinished: bool) -> Result<usize> {
    let filter = filter.clone();
    let filter = if unfinished { filter } else { filter.state(JobState::Blocked) };
    Ok(jobs.list(&filter).all().await?.len())
}
