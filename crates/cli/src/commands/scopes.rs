//! `tidelock scopes`: lists state documents, by kind and id.

use serde::Serialize;
use tidelock::scopes::{ScopeFilter, ScopeInfo};
use tidelock::{Tidelock, Timestamp};

use super::pages;
use crate::args::ScopesArgs;
use crate::failure::Failure;
use crate::output::{Output, TableRow, ahead, cut, json_line};
use crate::store_url::StoreUrl;

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

pub(crate) async fn run(
    args: ScopesArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let tidelock = Tidelock::over(store_url.open().await?.store);
    let now = Some(tidelock.store().now().await?);
    let filter = args.kind.map_or_else(ScopeFilter::all, ScopeFilter::kind);
    let scopes = tidelock.scopes().list(&filter.id_prefix(args.prefix));
    let row = |scope| Some(Row { scope, now, full: args.full });
    match pages::show(scopes, args.paging, out, row, "a longer prefix").await? {
        true => Ok(()),
        false => Ok(out.note(&format!("no such scope in {}", store_url.shown()))?),
    }
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
