//! The player: runs calls on a store and removes from the answers what a store is free to choose:
//! the numbers of positions, where pages end, and since which past moment a queue has been due.
//!
//! It works through two handles in turn, as two workers would. Leases are requested through one,
//! because the count of slots for the longest due belongs to a handle.

use std::sync::Arc;

use tidelock_store::{
    Commit, CommitOutcome, Committed, FeedQuery, FeedStart, HeadPage, Item, ItemFilter, ItemQuery,
    LeaseRequest, Leased, Position, Record, RecordQuery, Result, Store, StoreError, StoredEvent,
    StreamPage, StreamQuery, Timestamp, Version,
};

use super::call::{Answer, Call, Tick};
use crate::case::Subject;

/// More pages than any history fills.
const MOST_PAGES: usize = 1_000;

pub(super) struct Player<'a> {
    subject: &'a dyn Subject,
    handles: [Arc<dyn Store>; 2],
    played: usize,
    /// The position of every event ever accepted, in order.
    positions: Vec<Position>,
}

/// Why a call has no answer to compare: it failed as calls may, or it did what no store may do.
enum Trouble {
    Failed(StoreError),
    Wrong(String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

fn wrong<T>(what: impl Into<String>) -> std::result::Result<T, Trouble> {
    Err(Trouble::Wrong(what.into()))
}

impl<'a> Player<'a> {
    pub(super) async fn new(subject: &'a dyn Subject) -> Self {
        let handles = [subject.open().await, subject.open().await];
        Self { subject, handles, played: 0, positions: Vec::new() }
    }

    pub(super) async fn now(&self) -> Timestamp {
        self.handles[0].now().await.expect("the store tells the time")
    }

    /// Returns the answer, or what is wrong with it.
    pub(super) async fn play(&mut self, call: &Call) -> std::result::Result<Answer, String> {
        self.played += 1;
        match self.ask(call).await {
            Ok(answer) => Ok(answer),
            Err(Trouble::Failed(error)) => Ok(Answer::Failed(error.kind())),
            Err(Trouble::Wrong(what)) => Err(what),
        }
    }

    async fn ask(&mut self, call: &Call) -> std::result::Result<Answer, Trouble> {
        let store = self.handles[self.played % 2].clone();
        Ok(match call.clone() {
            Call::Commit(commit) => self.commit(&*store, commit).await?,
            Call::ReadStream(query) => {
                Answer::Stream(self.stream(store.read_stream(query).await?)?)
            }
            Call::ReadFeed(query) => Answer::Feed(self.feed(&*store, query).await?),
            Call::Heads(query) => Answer::Heads(self.heads(store.heads(query).await?)?),
            Call::Get(keys) => Answer::Slots(store.get(&keys).await?),
            Call::Scan(prefix, limit) => Answer::Records(scan(&*store, prefix, limit).await?),
            Call::Lease(request) => Answer::Leased(self.lease(request).await?),
            Call::Renew(tokens, duration) => Answer::Renewed(store.renew(&tokens, duration).await?),
            Call::Items(filter, limit) => Answer::Items(items(&*store, filter, limit).await?),
            Call::Adjust(filter, adjustment) => {
                Answer::Adjusted(store.adjust(filter, adjustment).await?)
            }
            Call::Clock(tick) => Answer::Now(self.tick(tick).await?),
        })
    }

    async fn commit(
        &mut self,
        store: &dyn Store,
        commit: Commit,
    ) -> std::result::Result<Answer, Trouble> {
        let outcome = store.commit(commit.clone()).await?;
        let CommitOutcome::Committed(mut committed) = outcome else {
            return Ok(Answer::Commit(outcome));
        };
        self.learn_positions(store, &commit, &committed).await?;
        for appended in &mut committed.appends {
            if let Some((first, last)) = appended.positions {
                appended.positions = Some((self.rank(first)?, self.rank(last)?));
            }
        }
        Ok(Answer::Commit(CommitOutcome::Committed(committed)))
    }

    /// Looks up the positions of the events that a commit has added: each must be above all earlier
    /// ones.
    async fn learn_positions(
        &mut self,
        store: &dyn Store,
        commit: &Commit,
        committed: &Committed,
    ) -> std::result::Result<(), Trouble> {
        let last = self.positions.last().copied().unwrap_or(Position::START);
        let mut added = Vec::new();
        for (append, appended) in commit.appends.iter().zip(&committed.appends) {
            let Some((first, _)) = appended.positions else { continue };
            if appended.replayed || self.positions.contains(&first) {
                continue;
            }
            let (count, version) = (append.events.len(), appended.version.get());
            let from = Version::new(version + 1 - count as u64)?;
            let page = store
                .read_stream(StreamQuery::forward(&append.stream).from(from).limit(count))
                .await?;
            added.extend(page.events.iter().map(|event| event.position));
        }
        added.sort_unstable();
        if added.first().is_some_and(|first| *first <= last) {
            return wrong(format!("position {} was given out after {last}", added[0]));
        }
        self.positions.extend(added);
        Ok(())
    }

    /// The ordinal number of the event at this position.
    fn rank(&self, position: Position) -> std::result::Result<Position, Trouble> {
        match self.positions.binary_search(&position) {
            Ok(at) => Ok(Position::START.plus(at as u64 + 1)),
            Err(_) => wrong(format!("no event that was accepted has position {position}")),
        }
    }

    fn event(&self, event: StoredEvent) -> std::result::Result<StoredEvent, Trouble> {
        Ok(StoredEvent { position: self.rank(event.position)?, ..event })
    }

    fn stream(&self, page: StreamPage) -> std::result::Result<StreamPage, Trouble> {
        let events = page
            .events
            .into_iter()
            .map(|event| self.event(event))
            .collect::<std::result::Result<_, _>>()?;
        Ok(StreamPage { events, ..page })
    }

    fn heads(&self, mut page: HeadPage) -> std::result::Result<HeadPage, Trouble> {
        for head in &mut page.heads {
            head.last = head.last.take().map(|event| self.event(event)).transpose()?;
        }
        Ok(page)
    }

    /// The position of the event with this ordinal number; of the last one, if there are fewer.
    fn ranked(&self, rank: Position) -> Position {
        let count = usize::try_from(rank.get()).unwrap_or(usize::MAX).min(self.positions.len());
        count.checked_sub(1).map_or(Position::START, |at| self.positions[at])
    }

    async fn feed(
        &self,
        store: &dyn Store,
        query: FeedQuery,
    ) -> std::result::Result<Vec<StoredEvent>, Trouble> {
        let from = match query.from {
            FeedStart::After(rank) => FeedStart::After(self.ranked(rank)),
            FeedStart::Before(rank, events) => FeedStart::Before(self.ranked(rank), events),
            last => last,
        };
        let mut read =
            if let FeedStart::After(position) = from { position } else { Position::START };
        let mut query = FeedQuery { from, ..query };
        let mut events = Vec::new();
        for _ in 0..MOST_PAGES {
            let page = store.read_feed(query.clone()).await?;
            if page.events.len() > query.limit || page.next < read {
                return wrong(format!("{} events, up to {}", page.events.len(), page.next));
            }
            if page.events.iter().any(|event| event.position <= read || event.position > page.next)
            {
                return wrong(format!("an event is not between {read} and {}", page.next));
            }
            (read, query.from) = (page.next, FeedStart::After(page.next));
            for event in page.events {
                events.push(self.event(event)?);
            }
            if page.at_end {
                return Ok(events);
            }
        }
        wrong("the feed does not end")
    }

    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        let mut leased = self.handles[0].lease(request).await?;
        let now = self.now().await;
        leased.next_due = leased.next_due.map(|due| due.max(now));
        Ok(leased)
    }

    async fn tick(&self, tick: Tick) -> Result<Timestamp> {
        match tick {
            Tick::Advance(duration) => self.subject.advance(duration).await,
            Tick::SetForward(duration) => self.subject.set_forward(duration).await,
            Tick::SetBack(duration) => self.subject.set_back(duration).await,
        }
        // A clock notices a change of the calendar when it is read, so both handles read it.
        self.handles[1].now().await?;
        let now = self.handles[0].now().await;
        self.subject.sweep().await;
        now
    }
}

async fn scan(
    store: &dyn Store,
    prefix: String,
    limit: usize,
) -> std::result::Result<Vec<Record>, Trouble> {
    let mut query = RecordQuery::prefix(prefix).limit(limit);
    let mut records = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = store.scan(query.clone()).await?;
        if page.records.len() > limit {
            return wrong(format!("a page of {} records", page.records.len()));
        }
        records.extend(page.records);
        let Some(next) = page.next else { return Ok(records) };
        query = query.after(next);
    }
    wrong("the records do not end")
}

async fn items(
    store: &dyn Store,
    filter: ItemFilter,
    limit: usize,
) -> std::result::Result<Vec<Item>, Trouble> {
    let mut query = ItemQuery::new(filter).limit(limit);
    let mut items = Vec::new();
    for _ in 0..MOST_PAGES {
        let page = store.items(query.clone()).await?;
        if page.items.len() > limit {
            return wrong(format!("a page of {} items", page.items.len()));
        }
        items.extend(page.items);
        let Some(next) = page.next else { return Ok(items) };
        query = query.after(next);
    }
    wrong("the items do not end")
}
