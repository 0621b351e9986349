//! `tidelock scopes`: lists state documents, by kind and id.

use serde::Serialize;
use tidelock::scopes::{ScopeFilter, ScopeInfo};
use tidelock::{Tidelock, Timestamp};

use super::{Cx, paged};
use crate::args::ScopesArgs;
use crate::failure::Result;
use crate::output::{TableRow, ahead, cut, json_line};

/// The length at which a document is truncated, unless shown in full.
const STATE: usize = 100;

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Row {
    scope: ScopeInfo,
    #[serde(skip)]
    now: Option<Timestamp>,
    #[serde(skip)]
    full: bool,
}

pub(crate) async fn run(args: ScopesArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let tidelock = Tidelock::over(store_url.open().await?.store);
    let now = Some(tidelock.store().now().await?);
    let filter = args.kind.map_or_else(ScopeFilter::all, ScopeFilter::kind);
    let list = tidelock.scopes().list(&filter.id_prefix(args.prefix));
    let read = async |after, limit| {
        let page = list.clone().after(after).limit(limit).await?;
        let row = |scope| Row { scope, now, full: args.full };
        Ok((page.items.into_iter().map(row).collect(), page.next))
    };
    let none = format!("no such scope in {}", store_url.shown());
    let more = |_| "there may be more: --all, or a longer prefix".to_owned();
    paged::list(args.paging, out, read, &none, more).await
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] = &["kind", "id", "revision", "expires", "state"];

    fn cells(&self) -> Vec<String> {
        let scope = &self.scope;
        let state = json_line(scope.state.as_str());
        let expires = scope.expires_at.zip(self.now).map(|(expires, now)| ahead(expires, now));
        vec![
            scope.kind.clone(),
            scope.id.clone(),
            scope.revision.to_string(),
            expires.unwrap_or_default(),
            if self.full { state.into_owned() } else { cut(&state, STATE).into_owned() },
        ]
    }
}
