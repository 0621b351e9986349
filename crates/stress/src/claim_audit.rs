//! The traces of claims in the store: writes under locks, completed keys, and what was not
//! returned.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tidelock::Outcome;
use tidelock::claims::{Claims, IdempotencyClaim};
use tidelock::store::{StoreExt, StoredEvent, StreamName};
use tokio::time::sleep;

use crate::caller::{Bug, Caller};
use crate::claim::{self, LOCKS, Quota, plain};
use crate::journal::Entry;
use crate::ledger::Journals;
use crate::space::Space;

/// Many leases long: what is not free by then is stuck.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time between two checks of what is not free yet.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub(crate) struct ClaimAudit {
    /// The writes under each lock, in order.
    pub(crate) bumps: BTreeMap<u64, Vec<StoredEvent>>,
    pub(crate) completions: Vec<StoredEvent>,
    /// Locks, keys and units that are not free although their holders are gone.
    pub(crate) stuck: Vec<String>,
}

impl ClaimAudit {
    /// Reads the store after the last claimant has ended, and tries to take everything that must be
    /// free.
    pub(crate) async fn read(
        caller: &Caller,
        space: &Space,
        journals: &Journals,
    ) -> Result<Self, Bug> {
        let claims = claim::claims(caller, "auditor");
        let mut stuck = Vec::new();
        for lock in 0..LOCKS {
            stuck.extend(stuck_lock(caller, &claims, space, lock).await?);
        }
        for key in unanswered(journals) {
            stuck.extend(stuck_key(caller, &claims, key).await?);
        }
        stuck.extend(stuck_units(caller, &claims, space).await?);
        let mut bumps = BTreeMap::new();
        for lock in 0..LOCKS {
            bumps.insert(lock, read(caller, &space.bumps(lock)).await?);
        }
        Ok(Self { bumps, completions: read(caller, &space.completions()).await?, stuck })
    }
}

async fn read(caller: &Caller, stream: &StreamName) -> Result<Vec<StoredEvent>, Bug> {
    caller.insist("read stream", || caller.store.read_whole_stream(stream)).await
}

/// Granted keys without a known result.
fn unanswered(journals: &Journals) -> BTreeSet<&str> {
    let (mut won, mut told) = (BTreeSet::new(), BTreeSet::new());
    for entry in journals.iter().flat_map(|(_, entries)| entries) {
        match entry {
            Entry::Won { key, .. } => drop(won.insert(key.as_str())),
            Entry::Receipt { key, .. } => drop(told.insert(key.as_str())),
            _ => {}
        }
    }
    &won - &told
}

async fn stuck_lock(
    caller: &Caller,
    claims: &Claims,
    space: &Space,
    nth: u64,
) -> Result<Option<String>, Bug> {
    let lock = claim::lock(claims, space, nth).within(LOOK_AGAIN);
    let begun = Instant::now();
    loop {
        match caller.insist("acquire", || async { plain(lock.acquire().await) }).await? {
            Outcome::Granted(guard) => {
                guard.release().await.map_err(|e| Bug(e.to_string()))?;
                return Ok(None);
            }
            Outcome::Refused(busy) if begun.elapsed() > PATIENCE => {
                return Ok(Some(busy.to_string()));
            }
            Outcome::Refused(_) => {}
        }
    }
}

async fn stuck_key(caller: &Caller, claims: &Claims, key: &str) -> Result<Option<String>, Bug> {
    let (key, begun) = (claims.idempotency(key), Instant::now());
    loop {
        match caller.insist("claim", || async { plain(key.claim::<String>().await) }).await? {
            IdempotencyClaim::Held(holder) if begun.elapsed() > PATIENCE => {
                return Ok(Some(format!("key {} is held by {:?}", key.key(), holder.by())));
            }
            IdempotencyClaim::Held(_) => sleep(LOOK_AGAIN).await,
            IdempotencyClaim::Won(won) => {
                won.release().await.map_err(|e| Bug(e.to_string()))?;
                return Ok(None);
            }
            IdempotencyClaim::Done(_) | IdempotencyClaim::Mismatch(_) => return Ok(None),
        }
    }
}

/// All reserved units can be taken again at once.
async fn stuck_units(
    caller: &Caller,
    claims: &Claims,
    space: &Space,
) -> Result<Option<String>, Bug> {
    let quota = Quota::Reserved.of(claims, space);
    let (all, begun) = (u32::try_from(Quota::Reserved.limit()).unwrap_or(u32::MAX), Instant::now());
    loop {
        match caller
            .insist("reserve", || async { plain(quota.reserve(all, PATIENCE).await) })
            .await?
        {
            Outcome::Granted(reserved) => {
                reserved.refund().await.map_err(|e| Bug(e.to_string()))?;
                return Ok(None);
            }
            Outcome::Refused(error) if begun.elapsed() > PATIENCE => {
                return Ok(Some(error.to_string()));
            }
            Outcome::Refused(_) => sleep(LOOK_AGAIN).await,
        }
    }
}
