//! The traces of reactions in the store: the staged events of their handlers, and the state of
//! their targets.

use std::collections::BTreeMap;

use tidelock::Tidelock;
use tidelock::reactions::{ReactionFilter, TargetInfo};
use tidelock::store::{HeadQuery, StoreExt, StoredEvent, StreamName};

use crate::caller::{Bug, Caller, store_result};
use crate::reaction::Reaction;
use crate::space::Space;

#[derive(Debug, Clone)]
pub(crate) struct ReactionAudit {
    /// What was handled, by the stream of its reaction and target, in order.
    pub(crate) handled: BTreeMap<StreamName, Vec<StoredEvent>>,
    pub(crate) targets: Vec<TargetInfo>,
}

impl ReactionAudit {
    /// Reads the store, after the last write.
    pub(crate) async fn read(caller: &Caller, space: &Space) -> Result<Self, Bug> {
        let mut handled = BTreeMap::new();
        for stream in streams(caller, space.handled_prefix()).await?.into_keys() {
            let read = || caller.store.read_whole_stream(&stream);
            let events = caller.insist("read stream", read).await?;
            handled.insert(stream, events);
        }
        Ok(Self { handled, targets: targets(caller, space).await? })
    }

    /// Number of handled events, over all reactions.
    pub(crate) fn count(&self) -> u64 {
        self.handled.values().map(|events| events.len() as u64).sum()
    }
}

/// Number of handled events so far.
pub(crate) async fn handled(caller: &Caller, space: &Space) -> Result<u64, Bug> {
    sum(caller, space.handled_prefix()).await
}

/// Number of events left to handle, and of targets that are not idle.
pub(crate) async fn left(caller: &Caller, space: &Space) -> Result<u64, Bug> {
    let written = sum(caller, space.work_prefix()).await?;
    let mut left = 0;
    for reaction in Reaction::ALL {
        left += written.saturating_sub(sum(caller, space.handled_by(reaction)).await?);
    }
    let restless = |target: &&TargetInfo| target.holder.is_some() || target.lag() > 0;
    let restless = targets(caller, space).await?.iter().filter(restless).count();
    Ok(left + restless as u64)
}

/// Number of events in all streams with this prefix.
async fn sum(caller: &Caller, prefix: String) -> Result<u64, Bug> {
    Ok(streams(caller, prefix).await?.values().sum())
}

/// The streams with this prefix, and the number of their events. A round has few enough for one
/// page.
async fn streams(caller: &Caller, prefix: String) -> Result<BTreeMap<StreamName, u64>, Bug> {
    let query = HeadQuery::prefix(prefix);
    let page = caller.insist("heads", || caller.store.heads(query.clone())).await?;
    let count = |version: Option<tidelock::store::Version>| {
        version.map_or(0, tidelock::store::Version::get)
    };
    Ok(page.heads.into_iter().map(|head| (head.stream, count(head.state.version()))).collect())
}

async fn targets(caller: &Caller, space: &Space) -> Result<Vec<TargetInfo>, Bug> {
    let reactions = Tidelock::over(caller.store.clone()).reactions();
    let mut targets = Vec::new();
    for reaction in Reaction::ALL {
        let filter = ReactionFilter::named(space.reaction(reaction));
        let list = || async { store_result(reactions.list(&filter).all().await) };
        targets.extend(caller.insist("items", list).await?);
    }
    Ok(targets)
}
