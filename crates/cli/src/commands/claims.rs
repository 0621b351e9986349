//! `tidelock claims`: lists claims with their holders and results; or the use of quotas.

use serde::Serialize;
use tidelock::claims::{ClaimInfo, ClaimState, QuotaInfo};
use tidelock::{Tidelock, Timestamp};

use super::pages;
use crate::args::ClaimsArgs;
use crate::failure::Failure;
use crate::output::{Output, TableRow, ago, ahead, cut};
use crate::store_url::StoreUrl;

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

/// How to see more rows.
const MORE: &str = "a longer prefix";

pub(crate) async fn run(
    args: ClaimsArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let claims = Tidelock::over(store).claims();
    let any = match args.quotas {
        true => {
            let row = |quota| Some(QuotaRow { quota, now });
            pages::show(claims.quotas(&args.prefix), args.paging, out, row, MORE).await?
        }
        false => {
            let full = args.full;
            let row = |claim: ClaimInfo| args.wants(claim.state).then(|| Row { claim, now, full });
            pages::show(claims.list(&args.prefix), args.paging, out, row, MORE).await?
        }
    };
    match any {
        true => Ok(()),
        false => Ok(out.note(&format!("no such claim in {}", store_url.shown()))?),
    }
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
