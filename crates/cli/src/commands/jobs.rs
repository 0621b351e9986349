//! `tidelock jobs`: lists jobs.

use serde::Serialize;
use tidelock::jobs::{JobFilter, JobInfo};
use tidelock::store::{ItemRef, NamePattern, QueueName};
use tidelock::{Tidelock, Timestamp};

use super::{Cx, paged};
use crate::args::JobsArgs;
use crate::failure::Result;
use crate::output::{TableRow, ago, ahead, cut};

/// The length at which an error is truncated, unless shown in full.
const ERROR: usize = 60;

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    job: JobInfo,
    #[serde(skip)]
    now: Timestamp,
    #[serde(skip)]
    full: bool,
}

pub(crate) async fn run(args: JobsArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let (now, full) = (store.now().await?, args.full);
    let jobs = Tidelock::over(store).jobs();
    let mut filter = selected(args.queue.as_ref(), args.key);
    if let Some(state) = args.state {
        filter = filter.state(state);
    }
    let none = format!("no such job in {}", store_url.shown());
    let more = |_: ItemRef| "there may be more: --all, or a longer pattern".to_owned();
    let read = async |after, limit| {
        let page = jobs.list(&filter).after(after).limit(limit).await?;
        Ok((page.items.into_iter().map(|job| Row { job, now, full }).collect(), page.next))
    };
    paged::list(args.paging, out, read, &none, more).await
}

/// The filter of jobs by queue and key.
pub(super) fn selected(queue: Option<&QueueName>, key: Option<NamePattern>) -> JobFilter {
    let filter = match queue {
        Some(queue) => JobFilter::queue(queue.as_str()),
        None => JobFilter::all(),
    };
    filter.keys(key.unwrap_or_default())
}

impl Row {
    /// When something happens to it, or when it ended.
    fn when(&self) -> String {
        match (self.job.ended_at, self.job.hold.max(self.job.due)) {
            (Some(ended), _) => ago(ended, self.now),
            (None, Some(due)) if due > self.now => ahead(due, self.now),
            (None, Some(due)) => ago(due, self.now),
            (None, None) => String::new(),
        }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["queue", "key", "state", "when", "failures", "crashes", "holder", "error"];

    fn cells(&self) -> Vec<String> {
        let job = &self.job;
        let error = job.reason.as_deref().or(job.error.as_deref()).unwrap_or_default();
        vec![
            job.queue.clone(),
            job.key.clone(),
            job.state.to_string(),
            self.when(),
            job.failures.to_string(),
            job.crashes.to_string(),
            job.holder.as_ref().map_or_else(String::new, |holder| holder.worker.to_string()),
            if self.full { error.to_owned() } else { cut(error, ERROR).into_owned() },
        ]
    }
}
