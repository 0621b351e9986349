//! `tidelock projections`: lists projections, and how far their rebuilds are.

use serde::Serialize;
use tidelock::Timestamp;
use tidelock::reactions::{ProjectionInfo, Reactions};

use super::{Cx, paged};
use crate::args::ProjectionsArgs;
use crate::failure::Result;
use crate::output::{TableRow, ago};

#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    projection: ProjectionInfo,
    #[serde(skip)]
    now: Timestamp,
}

pub(crate) async fn run(args: ProjectionsArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let reactions = Reactions::new(store);
    let read = async |after, limit| {
        let page = reactions.projections().after(after).limit(limit).await?;
        Ok((page.items.into_iter().map(|projection| Row { projection, now }).collect(), page.next))
    };
    let none = format!("no process has registered a projection with {}", store_url.shown());
    paged::list(args.paging, out, read, &none, |_| "there are more: --all".to_owned()).await
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["projection", "rebuild", "targets", "rebuilt", "left", "error"];

    fn cells(&self) -> Vec<String> {
        let name = self.projection.projection.clone();
        let Some(rebuild) = &self.projection.rebuild else {
            let state = if self.projection.deleting { "deleting old rows" } else { "" };
            let nothing = String::new;
            return vec![name, state.to_owned(), nothing(), nothing(), nothing(), nothing()];
        };
        let began = ago(rebuild.started_at, self.now);
        let partial = if rebuild.partial { "partial, " } else { "" };
        vec![
            name,
            format!("{partial}{began}"),
            rebuild.targets.to_string(),
            rebuild.rebuilt.to_string(),
            rebuild.lag.to_string(),
            rebuild.error.clone().unwrap_or_default(),
        ]
    }
}
