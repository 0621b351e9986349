//! What operators' bulk commands have in common: the output of a dry run, and of the result.

use serde::Serialize;
use tidelock::reactions::TargetInfo;
use tidelock::store::{Adjusted, Item};

use crate::failure::Result;
use crate::output::{Output, Style, TableRow, cut};
use crate::selection::Selection;

/// The number of items that a dry run lists.
const SHOWN: usize = 20;

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    item: Item,
}

/// The result, as JSON.
#[derive(Debug, Serialize)]
struct Done<'a> {
    done: &'a str,
    #[serde(flatten)]
    adjusted: Adjusted,
}

/// Reports a dry run.
pub(crate) async fn would(verb: &str, selection: &Selection, out: &mut Output) -> Result<()> {
    let matched = selection.look(SHOWN).await?;
    if matched.count == 0 {
        selection.check_names().await?;
    }
    let rows: Vec<Row> = matched.shown.into_iter().map(|item| Row { item }).collect();
    out.list(&rows)?;
    let (count, noun) = (matched.count, selection.noun());
    let more = if matched.more { "or more " } else { "" };
    Ok(out.note(&format!("dry run: {count} {more}{noun}s would be {verb}, nothing was done"))?)
}

/// Reports the result. If nothing was selected because a given name does not exist, that is an
/// error.
pub(crate) async fn was(
    verb: &'static str,
    selection: &Selection,
    adjusted: Adjusted,
    out: &mut Output,
) -> Result<()> {
    if adjusted.matched == 0 {
        selection.check_names().await?;
    }
    if out.is_json() {
        return Ok(out.json(&Done { done: verb, adjusted })?);
    }
    let (Adjusted { matched, changed }, noun) = (adjusted, selection.noun());
    Ok(out.line(Style::Plain, &format!("{verb}: {changed} of {matched} {noun}s"))?)
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["queue or reaction", "key or target", "at", "mark", "error"];

    fn cells(&self) -> Vec<String> {
        let (item, target) = (&self.item, TargetInfo::of(self.item.clone()));
        vec![
            target.map_or_else(|| item.item.queue.to_string(), |target| target.reaction),
            item.item.key.to_string(),
            item.at.to_string(),
            item.mark.to_string(),
            cut(item.error.as_deref().unwrap_or_default(), 60).into_owned(),
        ]
    }
}
