//! The input of the audit: the workers' journals, how they ended, and the content of the store.

use std::collections::BTreeMap;

use tidelock::store::{
    FeedQuery, HeadQuery, Item, ItemFilter, ItemQuery, Position, RecordKey, Revision, Slot,
    StoreExt, StoredEvent, StreamName,
};

use crate::account::{self, AccountState};
use crate::board::{self, Board};
use crate::caller::{Bug, Caller};
use crate::claim_audit::ClaimAudit;
use crate::journal::Entry;
use crate::ledger::Journals;
use crate::reaction_audit::ReactionAudit;
use crate::run_audit::RunAudit;
use crate::space::Space;
use crate::worker_spec::Load;

#[derive(Debug, Clone)]
pub(crate) struct Evidence {
    pub(crate) space: Space,
    pub(crate) journals: Journals,
    pub(crate) ends: Vec<(String, End)>,
    /// The round's events, in feed order.
    pub(crate) feed: Vec<StoredEvent>,
    /// The round's events, each stream read separately.
    pub(crate) streams: BTreeMap<StreamName, Vec<StoredEvent>>,
    pub(crate) items: Vec<Item>,
    pub(crate) totals: BTreeMap<RecordKey, i64>,
    /// The traces of reactions, if there were any.
    pub(crate) reaction_audit: Option<ReactionAudit>,
    /// The traces of runs, if there were any.
    pub(crate) run_audit: Option<RunAudit>,
    /// The final state of accounts, if there are any.
    pub(crate) accounts: Option<BTreeMap<String, AccountState>>,
    /// The final state of the boards, if there were any, and their revisions.
    pub(crate) boards: Option<Boards>,
    /// The traces of claims, if there were any.
    pub(crate) claim_audit: Option<ClaimAudit>,
}

/// Boards by number.
pub(crate) type Boards = BTreeMap<u64, (Board, Option<Revision>)>;

/// How a worker ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// When it was told to.
    Told,
    /// It was killed on purpose.
    Killed,
    /// In any other way.
    Failed(String),
}

impl Evidence {
    /// Reads the store, after the last write.
    pub(crate) async fn gather(
        caller: &Caller,
        space: &Space,
        start: Position,
        load: &Load,
        journals: Journals,
        ends: Vec<(String, End)>,
    ) -> Result<Self, Bug> {
        Ok(Self {
            claim_audit: if load.claims {
                Some(ClaimAudit::read(caller, space, &journals).await?)
            } else {
                None
            },
            boards: if load.scopes {
                Some(read_boards(caller, space, &journals).await?)
            } else {
                None
            },
            space: space.clone(),
            journals,
            ends,
            feed: read_feed(caller, space, start).await?,
            streams: read_own_streams(caller, space).await?,
            items: read_items(caller, space).await?,
            totals: read_totals(caller, (0..load.streams).map(|n| space.total(n)).collect())
                .await?,
            reaction_audit: if load.reacts {
                Some(ReactionAudit::read(caller, space).await?)
            } else {
                None
            },
            accounts: if load.closes { Some(account::read(caller, space).await?) } else { None },
            run_audit: if load.runs { Some(RunAudit::read(caller, space).await?) } else { None },
        })
    }
}

async fn read_feed(
    caller: &Caller,
    space: &Space,
    start: Position,
) -> Result<Vec<StoredEvent>, Bug> {
    let (mut events, mut after) = (Vec::new(), start);
    loop {
        let read = || caller.store.read_feed(FeedQuery::after(after));
        let page = caller.insist("read feed", read).await?;
        let prefix = space.stream_prefix();
        events.extend(
            page.events.into_iter().filter(|event| event.stream.as_str().starts_with(&prefix)),
        );
        after = page.next;
        if page.at_end {
            return Ok(events);
        }
    }
}

async fn read_own_streams(
    caller: &Caller,
    space: &Space,
) -> Result<BTreeMap<StreamName, Vec<StoredEvent>>, Bug> {
    let mut streams = read_streams(caller, space.stream_prefix()).await?;
    streams.remove(&space.start());
    Ok(streams)
}

/// Reads all streams with this prefix.
pub(crate) async fn read_streams(
    caller: &Caller,
    prefix: String,
) -> Result<BTreeMap<StreamName, Vec<StoredEvent>>, Bug> {
    let mut streams = BTreeMap::new();
    let mut query = HeadQuery::prefix(prefix);
    loop {
        let page = caller.insist("heads", || caller.store.heads(query.clone())).await?;
        for head in page.heads {
            let read = || caller.store.read_whole_stream(&head.stream);
            let events = caller.insist("read stream", read).await?;
            streams.insert(head.stream, events);
        }
        match (page.next, &mut query) {
            (Some(next), HeadQuery::Prefix { after, .. }) => *after = Some(next),
            _ => return Ok(streams),
        }
    }
}

async fn read_items(caller: &Caller, space: &Space) -> Result<Vec<Item>, Bug> {
    let mut items = Vec::new();
    let mut query = ItemQuery::new(ItemFilter::queue(space.queue().as_str()));
    loop {
        let page = caller.insist("items", || caller.store.items(query.clone())).await?;
        items.extend(page.items);
        let Some(next) = page.next else { return Ok(items) };
        query = query.after(next);
    }
}

async fn read_boards(caller: &Caller, space: &Space, journals: &Journals) -> Result<Boards, Bug> {
    let mut boards = Boards::new();
    for entry in journals.iter().flat_map(|(_, entries)| entries) {
        if let Entry::Wished(wish) = entry
            && !boards.contains_key(&wish.board)
        {
            boards.insert(wish.board, board::load(caller, space, wish.board).await?);
        }
    }
    Ok(boards)
}

/// Reads these counters.
pub(crate) async fn read_totals(
    caller: &Caller,
    keys: Vec<RecordKey>,
) -> Result<BTreeMap<RecordKey, i64>, Bug> {
    let slots = caller.insist("get", || caller.store.get(&keys)).await?;
    let total =
        |slot: Slot| slot.into_live().and_then(|record| record.value.to::<i64>().ok()).unwrap_or(0);
    Ok(keys.into_iter().zip(slots.into_iter().map(total)).collect())
}
