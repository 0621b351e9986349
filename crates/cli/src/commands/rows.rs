//! `tidelock rows`: the rows of a projection, page by page, or the row of one target.

use serde::Serialize;
use tidelock::Missing;
use tidelock::reactions::Reactions;
use tidelock::store::RawJson;

use super::{Cx, paged};
use crate::args::RowsArgs;
use crate::failure::{Failure, Result};
use crate::output::{TableRow, cut};

/// The length at which a row is truncated, unless shown in full.
const ROW: usize = 100;

#[derive(Debug, Serialize)]
struct Row {
    target: String,
    row: RawJson,
    #[serde(skip)]
    full: bool,
}

pub(crate) async fn run(args: RowsArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let reactions = Reactions::new(store_url.open().await?.store);
    let RowsArgs { projection, full, .. } = args;
    if reactions.projection(&projection).await?.is_none() {
        return Err(unknown(&reactions, &projection).await?);
    }
    if let Some(target) = args.target {
        let row = reactions.row(&projection, &target).await?;
        let row = row.ok_or_else(|| Failure::from(Missing::Target { name: target.clone() }))?;
        return Ok(out.list(&[Row { target, row, full }])?);
    }
    let read = async |after: Option<String>, limit| {
        let after = after.or_else(|| args.after.clone());
        let page = reactions.rows(&projection).after(after).limit(limit).await?;
        let rows = page.items.into_iter().map(|(target, row)| Row { target, row, full });
        Ok((rows.collect(), page.next))
    };
    let none = format!("projection {projection:?} has no such row");
    let more = |after: String| format!("there are more: --all, or --after {after:?}");
    paged::list(args.paging, out, read, &none, more).await
}

/// Why there is no such projection.
pub(super) async fn unknown(reactions: &Reactions, projection: &str) -> Result<Failure> {
    Ok(match reactions.missing_reaction(projection).await? {
        Some(missing) => missing.into(),
        None => Failure::refused(
            format!("reaction {projection:?} is no projection, or none yet"),
            "tidelock projections lists those that processes have registered",
        ),
    })
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] = &["target", "row"];

    fn cells(&self) -> Vec<String> {
        let row = self.row.as_str();
        let row = if self.full { row.to_owned() } else { cut(row, ROW).into_owned() };
        vec![self.target.clone(), row]
    }
}
