//! `tidelock scopes`: lists state documents, by kind and id.

use serde::Serialize;
use tidelock::scopes::ScopeInfo;
use tidelock::{Tidelock, Timestamp, limits};

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
    let (mut after, mut left, mut any) = (None, args.paging.wanted(), false);
    loop {
        let limit = left.min(limits::PAGE_SIZE);
        let page = tidelock.scopes(args.kind.as_deref(), &args.prefix, after.take(), limit).await?;
        left -= page.scopes.len().min(left);
        any |= !page.scopes.is_empty();
        let row = |scope| Row { scope, now, full: args.full };
        out.list(&page.scopes.into_iter().map(row).collect::<Vec<_>>())?;
        match page.next {
            Some(_) if left == 0 => {
                return Ok(out.note("there may be more: --all, or a longer prefix")?);
            }
            Some(next) => after = Some(next),
            None if !any => {
                return Ok(out.note(&format!("no such scope in {}", store_url.shown()))?);
            }
            None => return Ok(()),
        }
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
