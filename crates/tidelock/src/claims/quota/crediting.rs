//! Crediting the units of expired reservations.
//!
//! The units taken are one counter, which the store compares with the limit. It includes the units
//! of expired reservations until they are credited. So it is never too low, and a refusal is
//! retried once the expired part is credited.

use tidelock_store::{
    Bounds, Commit, ExpectedRevision, RecordWrite, Result, Slot, Store, Timestamp,
};

use super::super::{ClaimKey, Claims, keys};
use super::Window;
use super::ledger::Ledger;

/// Number of buckets credited in one commit.
const BUCKETS: usize = 900;

/// Credits the expired reservations of this window. Returns whether there were any, even if a
/// concurrent caller credited them.
pub(super) async fn credit(claims: &Claims, key: &ClaimKey, window: Window) -> Result<bool> {
    let store = claims.store();
    let slots = store.get(&[keys::ledger(key.as_str())?]).await?;
    let ledger = Ledger::read(key.as_str(), window, &slots[0])?;
    let expired = ledger.expired(store.now().await?, BUCKETS);
    if expired.is_empty() {
        return Ok(false);
    }
    let buckets = expired.iter().map(|end| ledger.bucket(*end)).collect::<Result<Vec<_>>>()?;
    let found = store.get(&buckets).await?;
    let mut commit = Commit::new()
        .guard_record(&keys::window(key)?, ExpectedRevision::Revision(window.revision))
        .write(ledger.without(&expired)?);
    for bucket in found.iter().filter_map(Slot::live) {
        let seen = ExpectedRevision::Revision(bucket.revision);
        commit = commit.write(RecordWrite::delete(&bucket.key, seen));
    }
    match sum(&found)? {
        0 => {}
        units => {
            commit =
                commit.write(RecordWrite::add(&keys::taken(key)?, -units, Bounds::at_least(0)));
        }
    }
    // On a conflict a concurrent caller was first, or a late reservation has changed a bucket: the
    // next read shows.
    let _credited_or_not = claims.send(&commit).await?;
    Ok(true)
}

/// Returns the units taken of a quota; `None` if its window is over.
pub(in super::super) async fn taken(
    store: &dyn Store,
    quota: &str,
) -> Result<Option<(i64, Window)>> {
    let [window, taken, ledger] =
        [keys::window_of(quota)?, keys::taken_of(quota)?, keys::ledger(quota)?];
    let slots = store.get(&[window.clone(), taken.clone(), ledger]).await?;
    let Some(open) = Window::of(&slots[0]) else { return Ok(None) };
    let expired = match slots[2].live() {
        Some(_) => Ledger::read(quota, open, &slots[2])?.expired(store.now().await?, BUCKETS),
        None => Vec::new(),
    };
    if expired.is_empty() {
        return Ok(Some((count(&slots[1])?, open)));
    }
    let buckets = expired.iter().map(|end: &Timestamp| keys::bucket(quota, open.revision, *end));
    let buckets = buckets.collect::<Result<Vec<_>>>()?;
    let keys: Vec<_> = [window, taken].into_iter().chain(buckets).collect();
    let slots = store.get(&keys).await?;
    Ok(match Window::of(&slots[0]) {
        Some(still) if still.revision == open.revision => {
            Some(((count(&slots[1])? - sum(&slots[2..])?).max(0), open))
        }
        // The window has ended meanwhile, and nothing is taken from the next one.
        _ => None,
    })
}

fn sum(buckets: &[Slot]) -> Result<i64> {
    buckets.iter().map(count).sum()
}

fn count(slot: &Slot) -> Result<i64> {
    Ok(slot.live().map(|record| record.value.to()).transpose()?.unwrap_or(0))
}
