//! `tidelock runs`: which there are, newest first; or where one stands.

mod standing;

use serde::Serialize;
use tidelock::runs::{RunFilter, RunInfo, RunStatus, Runs};
use tidelock::{Tidelock, Timestamp, limits};

use crate::args::RunsArgs;
use crate::failure::Failure;
use crate::output::{Listed, Output, Style, ago};
use crate::place::StoreUrl;

pub(crate) use standing::described;

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    run: RunInfo,
    #[serde(skip)]
    now: Timestamp,
}

/// One run, and where it stands.
#[derive(Debug, Serialize)]
struct One<'a> {
    #[serde(flatten)]
    run: &'a RunInfo,
    standing: &'a RunStatus,
}

pub(crate) async fn run(args: RunsArgs, place: &StoreUrl, out: &mut Output) -> Result<(), Failure> {
    let store = place.open().await?.store;
    let now = store.now().await?;
    let runs = Tidelock::over(store).runs();
    match &args.run {
        Some(id) => {
            let run = runs.run(id);
            tell(&run.get().await?, &run.standing().await?, now, out)
        }
        None => list(&runs, &args, now, out).await,
    }
}

async fn list(
    runs: &Runs,
    args: &RunsArgs,
    now: Timestamp,
    out: &mut Output,
) -> Result<(), Failure> {
    let (mut filter, mut left, mut any) = (filter(args), args.paging.wanted(), false);
    loop {
        let page = runs.list(&filter.clone().limit(left.min(limits::PAGE_SIZE))).await?;
        left -= page.runs.len().min(left);
        any |= !page.runs.is_empty();
        out.list(&page.runs.into_iter().map(|run| Row { run, now }).collect::<Vec<_>>())?;
        match page.next {
            Some(_) if left == 0 => {
                return Ok(out.note("there may be more: --all, or a narrower filter")?);
            }
            Some(next) => filter = filter.after(next),
            None if !any => return Ok(out.note("no such run in this store")?),
            None => return Ok(()),
        }
    }
}

fn filter(args: &RunsArgs) -> RunFilter {
    let filter = args.state.iter().fold(RunFilter::all(), |filter, state| filter.state(state.0));
    let filter = args.workflow.iter().fold(filter, |filter, workflow| filter.workflow(workflow));
    args.attribute.iter().fold(filter, |filter, (name, value)| filter.attribute(name, value))
}

/// Shows one run.
pub(crate) fn tell(
    run: &RunInfo,
    standing: &RunStatus,
    now: Timestamp,
    out: &mut Output,
) -> Result<(), Failure> {
    if out.is_json() {
        return Ok(out.json(&One { run, standing })?);
    }
    let (id, workflow, version) = (run.run.as_str(), run.workflow.as_str(), run.version);
    out.line(
        Style::Heading,
        &format!(
            "run {id:?} of workflow {workflow:?} @{version}, begun {}",
            ago(run.started_at, now)
        ),
    )?;
    described(standing, now)
        .iter()
        .try_for_each(|line| out.line(Style::Plain, &format!("  {line}")))?;
    Ok(())
}

impl Listed for Row {
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
