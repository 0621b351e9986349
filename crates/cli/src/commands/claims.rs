//! `tidelock claims`: lists claims with their holders and results; or the use of quotas.

use serde::Serialize;
use tidelock::claims::{ClaimInfo, ClaimState, Claims, QuotaInfo};
use tidelock::{Tidelock, Timestamp, limits};

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

pub(crate) async fn run(
    args: ClaimsArgs,
    store_url: &StoreUrl,
    out: &mut Output,
) -> Result<(), Failure> {
    let store = store_url.open().await?.store;
    let now = store.now().await?;
    let claims = Tidelock::over(store).claims();
    let any = match args.quotas {
        true => quotas(&claims, &args, now, out).await?,
        false => list(&claims, &args, now, out).await?,
    };
    match any {
        true => Ok(()),
        false => Ok(out.note(&format!("no such claim in {}", store_url.shown()))?),
    }
}

/// Lists claims; returns whether there is any.
async fn list(
    claims: &Claims,
    args: &ClaimsArgs,
    now: Timestamp,
    out: &mut Output,
) -> Result<bool, Failure> {
    let (mut after, mut left, mut any) = (None, args.paging.wanted(), false);
    loop {
        let page = claims.list(&args.prefix, after.take(), left.min(limits::PAGE_SIZE)).await?;
        let wanted = page.claims.into_iter().filter(|claim| args.wants(claim.state));
        let rows: Vec<Row> = wanted.map(|claim| Row { claim, now, full: args.full }).collect();
        left -= rows.len().min(left);
        any |= !rows.is_empty();
        out.list(&rows)?;
        match page.next {
            Some(_) if left == 0 => {
                out.note(MORE)?;
                return Ok(any);
            }
            Some(next) => after = Some(next),
            None => return Ok(any),
        }
    }
}

/// Lists quotas; returns whether there is any.
async fn quotas(
    claims: &Claims,
    args: &ClaimsArgs,
    now: Timestamp,
    out: &mut Output,
) -> Result<bool, Failure> {
    let (mut after, mut left, mut any) = (None, args.paging.wanted(), false);
    loop {
        let page = claims.quotas(&args.prefix, after.take(), left.min(limits::PAGE_SIZE)).await?;
        let rows: Vec<QuotaRow> =
            page.quotas.into_iter().map(|quota| QuotaRow { quota, now }).collect();
        left -= rows.len().min(left);
        any |= !rows.is_empty();
        out.list(&rows)?;
        match page.next {
            Some(_) if left == 0 => {
                out.note(MORE)?;
                return Ok(any);
            }
            Some(next) => after = Some(next),
            None => return Ok(any),
        }
    }
}

const MORE: &str = "there may be more: --all, or a longer prefix";

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
