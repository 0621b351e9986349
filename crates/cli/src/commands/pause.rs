//! `tidelock pause`: keeps a queue, a reaction or a workflow from being leased; or lists what is
//! paused.

use serde::Serialize;
use tidelock::store::ItemFilter;
use tidelock::{Missing, PauseInfo, PauseSubject, Tidelock, Timestamp};

use super::Cx;
use crate::args::{PauseArgs, PauseSubjectArgs};
use crate::failure::Result;
use crate::output::{TableRow, ago};

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    pause: PauseInfo,
    #[serde(skip)]
    now: Timestamp,
}

pub(crate) async fn run(args: PauseArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let (now, tidelock) = (store.now().await?, Tidelock::over(store));
    let (reason, subject) = (&args.reason, args.subject);
    if let Some(subject) = &subject
        && let Some(missing) = missing(subject, &tidelock).await?
    {
        match subject.queue {
            // The first items of a queue may come while it is paused.
            Some(_) => out.note(&format!("{missing} yet"))?,
            None => return Err(missing.into()),
        }
    }
    let what = match subject {
        Some(PauseSubjectArgs { queue: Some(queue), .. }) => {
            tidelock.jobs().pause(&queue, reason).await?;
            format!("queue {queue:?}")
        }
        Some(PauseSubjectArgs { reaction: Some(reaction), .. }) => {
            tidelock.reactions().pause(&reaction, reason).await?;
            format!("reaction {reaction:?}")
        }
        Some(PauseSubjectArgs { workflow: Some(workflow), .. }) => {
            tidelock.runs().pause(&workflow, reason).await?;
            format!("workflow {workflow:?}")
        }
        _ => {
            let rows = tidelock.pauses().await?.into_iter().map(|pause| Row { pause, now });
            let rows: Vec<Row> = rows.collect();
            if rows.is_empty() {
                return Ok(out.note(&format!("nothing is paused in {}", store_url.shown()))?);
            }
            return Ok(out.list(&rows)?);
        }
    };
    let what = format!("{what} is paused: within two seconds nothing new of it is leased");
    Ok(out.done("paused", &what)?)
}

/// The name, if nothing has it.
async fn missing(subject: &PauseSubjectArgs, tidelock: &Tidelock) -> Result<Option<Missing>> {
    Ok(match (&subject.queue, &subject.reaction, &subject.workflow) {
        (Some(queue), ..) => {
            Missing::among_items(&**tidelock.store(), &ItemFilter::queue(queue)).await?
        }
        (_, Some(reaction), _) => tidelock.reactions().missing_reaction(reaction).await?,
        (.., Some(workflow)) => tidelock.runs().missing_workflow(workflow).await?,
        _ => None,
    })
}

/// Resumes it, and says so.
pub(super) async fn resume(subject: PauseSubjectArgs, tidelock: &Tidelock) -> Result<String> {
    let named = subject.clone();
    let (what, was_paused) = match (subject.queue, subject.reaction, subject.workflow) {
        (Some(queue), ..) => (format!("queue {queue:?}"), tidelock.jobs().resume(&queue).await?),
        (_, Some(reaction), _) => {
            (format!("reaction {reaction:?}"), tidelock.reactions().resume(&reaction).await?)
        }
        (.., workflow) => {
            let workflow = workflow.unwrap_or_default();
            let was_paused = tidelock.runs().resume(&workflow).await?;
            (format!("workflow {workflow:?}"), was_paused)
        }
    };
    if was_paused {
        return Ok(format!("{what} is resumed"));
    }
    match missing(&named, tidelock).await? {
        Some(missing) => Err(missing.into()),
        None => Ok(format!("{what} was not paused")),
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] = &["kind", "name", "since", "reason"];

    fn cells(&self) -> Vec<String> {
        let (kind, name) = match &self.pause.subject {
            PauseSubject::Queue(name) => ("queue", name.as_str()),
            PauseSubject::Reaction(name) => ("reaction", name.as_str()),
            PauseSubject::Workflow(name) => ("workflow", name.as_str()),
            _ => ("other", ""),
        };
        let since = ago(self.pause.since, self.now);
        vec![kind.to_owned(), name.to_owned(), since, self.pause.reason.clone()]
    }
}
