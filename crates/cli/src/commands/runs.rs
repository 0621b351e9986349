//! `tidelock runs`: lists runs, newest first; or shows the status of one, or writes its history to
//! a file.

mod history_file;
mod status;

use serde::Serialize;
use tidelock::runs::{RunCursor, RunFilter, RunInfo, RunStatus, Runs};
use tidelock::{Tidelock, Timestamp};

use super::{Cx, paged};
use crate::args::RunsArgs;
use crate::failure::Result;
use crate::output::{Output, Style, TableRow, ago};

pub(crate) use status::described;

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    run: RunInfo,
    #[serde(skip)]
    now: Timestamp,
}

/// One run, and its status.
#[derive(Debug, Serialize)]
struct One<'a> {
    #[serde(flatten)]
    run: &'a RunInfo,
    status: &'a RunStatus,
}

pub(crate) async fn run(args: RunsArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let runs = Tidelock::over(store).runs();
    match &args.run {
        Some(id) => {
            let run = runs.run(id);
            if let Some(file) = &args.export {
                return history_file::write(
                    &run.export().await?,
                    file,
                    store_url,
                    args.overwrite,
                    out,
                );
            }
            tell(&run.get().await?, &run.status().await?, now, out)
        }
        None => list(&runs, &args, now, out).await,
    }
}

async fn list(runs: &Runs, args: &RunsArgs, now: Timestamp, out: &mut Output) -> Result<()> {
    let list = runs.list(&filter(args));
    let read = async |after: Option<RunCursor>, limit| {
        let page = list.clone().after(after).limit(limit).await?;
        Ok((page.items.into_iter().map(|run| Row { run, now }).collect(), page.next))
    };
    let more = |_| "there may be more: --all, or a narrower filter".to_owned();
    paged::list(args.paging, out, read, "no such run in this store", more).await
}

fn filter(args: &RunsArgs) -> RunFilter {
    let filter = args.state.iter().fold(RunFilter::all(), |filter, state| filter.state(state.0));
    let filter = args.workflow.iter().fold(filter, RunFilter::workflow);
    args.attribute.iter().fold(filter, |filter, (name, value)| filter.attribute(name, value))
}

/// Shows one run.
pub(crate) fn tell(
    run: &RunInfo,
    status: &RunStatus,
    now: Timestamp,
    out: &mut Output,
) -> Result<()> {
    if out.is_json() {
        return Ok(out.json(&One { run, status })?);
    }
    let (id, workflow, version) = (run.run.as_str(), run.workflow.as_str(), run.version);
    out.line(
        Style::Heading,
        &format!(
            "run {id:?} of workflow {workflow:?} @{version}, started {}",
            ago(run.started_at, now)
        ),
    )?;
    described(status, now)
        .iter()
        .try_for_each(|line| out.line(Style::Plain, &format!("  {line}")))?;
    Ok(())
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["run", "workflow", "state", "started", "ended", "attributes"];

    fn cells(&self) -> Vec<String> {
        let run = &self.run;
        let attributes: Vec<_> =
            run.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        vec![
            run.run.as_str().to_owned(),
            format!("{}@{}", run.workflow.as_str(), run.version),
            run.state.as_str().to_owned(),
            ago(run.started_at, self.now),
            run.ended_at.map_or_else(String::new, |ended| ago(ended, self.now)),
            attributes.join(" "),
        ]
    }
}
