//! `tidelock claims`: lists claims with their holders and results; or the use of quotas.

use serde::Serialize;
use tidelock::claims::{ClaimInfo, ClaimState, QuotaInfo};
use tidelock::store::RecordKey;
use tidelock::{Tidelock, Timestamp};

use super::{Cx, paged};
use crate::args::ClaimsArgs;
use crate::failure::Result;
use crate::output::{TableRow, ago, ahead, cut};

/// The length at which an error is truncated, unless shown in full.
const ERROR: usize = 60;

#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    claim: ClaimInfo,
    #[serde(skip)]
    now: Timestamp,
    #[serde(skip)]
    full: bool,
}

#[derive(Debug, Serialize)]
struct QuotaRow {
    #[serde(flatten)]
    quota: QuotaInfo,
    #[serde(skip)]
    now: Timestamp,
}

pub(crate) async fn run(args: ClaimsArgs, Cx { store_url, out }: Cx<'_>) -> Result<()> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let claims = Tidelock::over(store).claims();
    let none = format!("no such claim in {}", store_url.shown());
    let more = |_: RecordKey| "there may be more: --all, or a longer prefix".to_owned();
    if args.quotas {
        let read = async |after, limit| {
            let page = claims.quotas(&args.prefix).after(after).limit(limit).await?;
            let rows = page.items.into_iter().map(|quota| QuotaRow { quota, now });
            Ok((rows.collect(), page.next))
        };
        return paged::list(args.paging, out, read, &none, more).await;
    }
    let read = async |after, limit| {
        let page = claims.list(&args.prefix).after(after).limit(limit).await?;
        let wanted = page.items.into_iter().filter(|claim| args.wants(claim.state));
        let rows = wanted.map(|claim| Row { claim, now, full: args.full }).collect();
        Ok((rows, page.next))
    };
    paged::list(args.paging, out, read, &none, more).await
}

impl Row {
    /// The remaining time, depending on the state.
    fn until(&self) -> String {
        match (self.claim.state, self.claim.until) {
            (ClaimState::Stale, _) => "expired".to_owned(),
            (_, Some(until)) => ahead(until, self.now),
            (_, None) => "never expires".to_owned(),
        }
    }
}

impl TableRow for Row {
    const HEADINGS: &'static [&'static str] =
        &["claim", "state", "by", "since", "until", "fence", "error"];

    fn cells(&self) -> Vec<String> {
        let claim = &self.claim;
        let error = claim.error.as_deref().unwrap_or_default();
        vec![
            claim.key.clone(),
            claim.state.as_str().to_owned(),
            claim.by.to_string(),
            claim.since.map_or_else(String::new, |since| ago(since, self.now)),
            self.until(),
            claim.fence.to_string(),
            if self.full { error.to_owned() } else { cut(error, ERROR).into_owned() },
        ]
    }
}

impl TableRow for QuotaRow {
    const HEADINGS: &'static [&'static str] = &["quota", "used", "resets"];

    fn cells(&self) -> Vec<String> {
        let QuotaInfo { key, used, resets_at } = &self.quota;
        let again = resets_at.map_or_else(|| "never".to_owned(), |at| ahead(at, self.now));
        vec![key.clone(), used.to_string(), again]
    }
}
