//! A store with pages as small as possible.
//!
//! Every paged read may return fewer rows than requested, and none at all, though more follows: a
//! store scans a bounded number of rows. That happens after thousands of rows; here it happens at
//! once, and at random.

use std::sync::{Arc, Mutex};

use tidelock::store::{
    FeedPage, FeedQuery, HeadPage, HeadQuery, ItemPage, ItemQuery, ItemRef, RecordKey, RecordPage,
    RecordQuery, Result, Store, StoreLayer, StreamName, StreamPage, StreamQuery, async_trait,
};

/// The variable that makes every test store stingy, with the seed that it contains.
const SEED: &str = "TIDELOCK_STINGY";
/// Maximum number of consecutive empty pages: a search must end some time.
const EMPTY: usize = 2;

/// A store that returns 0 to 2 rows per page, and where to continue.
///
/// A page of a stream has at least one event if there is any: there is no position between two
/// versions. So has a page of the feed, unless it is filtered.
#[derive(Debug)]
pub struct Stingy {
    store: Arc<dyn Store>,
    dice: Mutex<Dice>,
}

#[derive(Debug)]
struct Dice {
    random: fastrand::Rng,
    /// Number of consecutive empty pages so far.
    empty: usize,
}

/// The seed of the environment, if there is one.
pub fn stingy_seed() -> Option<u64> {
    let said = std::env::var(SEED).ok()?;
    Some(said.parse().unwrap_or_else(|_| panic!("{SEED}={said:?} is no number")))
}

impl Stingy {
    /// This store, with small pages from this seed.
    pub fn over(store: Arc<dyn Store>, seed: u64) -> Arc<dyn Store> {
        let dice = Dice { random: fastrand::Rng::with_seed(seed), empty: 0 };
        Arc::new(Self { store, dice: Mutex::new(dice) })
    }

    /// This store with small pages, from the seed of the environment or a random one; a failing
    /// test prints it.
    pub fn at_random(store: Arc<dyn Store>) -> Arc<dyn Store> {
        let seed = stingy_seed().unwrap_or_else(|| fastrand::u64(..1_000_000));
        println!("small pages: {SEED}={seed} plays them again");
        Self::over(store, seed)
    }

    /// The number of rows of the next page: 0 to 2.
    fn rows(&self) -> usize {
        let mut dice = self.dice.lock().unwrap();
        let rows =
            if dice.empty < EMPTY { dice.random.usize(..=2) } else { dice.random.usize(1..=2) };
        dice.empty = if rows == 0 { dice.empty + 1 } else { 0 };
        rows
    }

    fn rows_or_one(&self) -> usize {
        self.dice.lock().unwrap().random.usize(1..=2)
    }

    fn coin(&self) -> bool {
        self.dice.lock().unwrap().random.bool()
    }
}

/// A name between these two, if there is room.
fn between(after: &str, before: &str) -> Option<String> {
    let name = format!("{after}!");
    (name.as_str() < before).then_some(name)
}

#[async_trait]
impl StoreLayer for Stingy {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn read_stream(&self, mut query: StreamQuery) -> Result<StreamPage> {
        query.check()?;
        query.limit = query.limit.min(self.rows_or_one());
        self.store.read_stream(query).await
    }

    /// Scans only a few events, and so returns none if none of them matches.
    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        query.check()?;
        if query.is_end() {
            return self.store.read_feed(query).await;
        }
        let looked =
            self.store.read_feed(FeedQuery::from(query.from).limit(self.rows_or_one() * 2)).await?;
        let mut page = FeedPage { events: Vec::new(), ..looked.clone() };
        let most = query.limit.min(self.rows_or_one());
        for event in looked.events {
            if page.events.len() == most {
                return Ok(FeedPage { at_end: false, ..page });
            }
            page.next = event.position;
            let metadata = event.metadata.clone();
            if query.filter.passes(event.stream.as_str(), event.event_type.as_str(), || metadata) {
                page.events.push(event);
            }
        }
        Ok(FeedPage { next: looked.next, ..page })
    }

    async fn heads(&self, mut query: HeadQuery) -> Result<HeadPage> {
        query.check()?;
        let rows = self.rows();
        let HeadQuery::Prefix { prefix, after, limit } = &mut query else {
            return self.store.heads(query).await;
        };
        *limit = rows.clamp(1, *limit);
        let from = after.as_ref().map_or("", StreamName::as_str).max(prefix).to_owned();
        let page = self.store.heads(query).await?;
        let first = page.heads.first().filter(|_| rows == 0);
        match first.and_then(|first| StreamName::new(between(&from, first.stream.as_str())?).ok()) {
            Some(place) => Ok(HeadPage { heads: Vec::new(), next: Some(place) }),
            None => Ok(page),
        }
    }

    async fn scan(&self, mut query: RecordQuery) -> Result<RecordPage> {
        query.check()?;
        let rows = self.rows();
        query.limit = rows.clamp(1, query.limit);
        let from = query.after.as_ref().map_or("", RecordKey::as_str).max(&query.prefix).to_owned();
        let mut page = self.store.scan(query).await?;
        let first = page.records.first().filter(|_| rows == 0);
        if let Some(place) =
            first.and_then(|first| RecordKey::new(between(&from, first.key.as_str())?).ok())
        {
            return Ok(RecordPage { records: Vec::new(), next: Some(place) });
        }
        // There may be more after the last of them.
        if page.next.is_none() && self.coin() {
            page.next = page.records.last().map(|record| record.key.clone());
        }
        Ok(page)
    }

    async fn items(&self, mut query: ItemQuery) -> Result<ItemPage> {
        if query.filter.one().is_some() {
            // Every store finds an item by its name at once.
            return self.store.items(query).await;
        }
        query.check()?;
        let (rows, after) = (self.rows(), query.after.clone());
        query.limit = rows.clamp(1, query.limit);
        let mut page = self.store.items(query).await?;
        if let Some(place) = page.items.first().filter(|_| rows == 0).and_then(|first| {
            let (queue, key) = (first.item.queue.as_str(), first.item.key.as_str());
            let from = after.filter(|after| after.queue.as_str() == queue);
            ItemRef::parse(
                queue,
                &between(from.as_ref().map_or("", |from| from.key.as_str()), key)?,
            )
            .ok()
        }) {
            return Ok(ItemPage { items: Vec::new(), next: Some(place) });
        }
        if page.next.is_none() && self.coin() {
            page.next = page.items.last().map(|item| item.item.clone());
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use tidelock::store::{
        Commit, ExpectedRevision, ItemFilter, Mark, MemoryStore, Position, RawJson, RecordWrite,
        StoreExt, Wake,
    };

    use super::*;
    use crate::many_events;

    /// Reading to the end returns everything, and some pages on the way are empty.
    #[tokio::test]
    async fn small_pages_miss_nothing_and_repeat_nothing() {
        let plain: Arc<dyn Store> = Arc::new(MemoryStore::new());
        for nth in 0..20 {
            let (name, mark) = (format!("{:02}", nth * 7 % 20), Mark::new(1).unwrap());
            let write = RecordWrite::put(
                &RecordKey::new(&*name).unwrap(),
                ExpectedRevision::Any,
                RawJson::new(&nth).unwrap(),
            );
            let wake = Wake::to_mark(ItemRef::parse("q", &name).unwrap(), mark);
            plain.commit(Commit::new().write(write).wake(wake)).await.unwrap().committed().unwrap();
            many_events(&*plain, &format!("s-{name}"), 3).await;
        }
        for seed in 0..20 {
            let stingy = Stingy::over(plain.clone(), seed);
            assert_same(&plain, &stingy, RecordQuery::prefix("")).await;
            assert_same(&plain, &stingy, RecordQuery::prefix("1")).await;
            assert_same(&plain, &stingy, ItemQuery::new(ItemFilter::queue("q").blocked(false)))
                .await;
            assert_same(&plain, &stingy, HeadQuery::prefix("s-")).await;
            assert_same(&plain, &stingy, FeedQuery::after(Position::START)).await;
            assert_same(&plain, &stingy, FeedQuery::after(Position::START).stream_prefix("s-1"))
                .await;
            let stream = StreamName::new("s-07").unwrap();
            assert_same(&plain, &stingy, StreamQuery::forward(&stream)).await;
            assert_same(&plain, &stingy, StreamQuery::backward(&stream)).await;
        }
        let stingy = Stingy::over(plain, 1);
        let mut empty = 0;
        for _ in 0..20 {
            let page = stingy.scan(RecordQuery::prefix("")).await.unwrap();
            assert!(page.records.len() <= 2 && page.next.is_some());
            empty += usize::from(page.records.is_empty());
        }
        assert!(empty > 0, "none of them was empty");
    }

    async fn assert_same<Q: tidelock::store::Paged>(
        plain: &Arc<dyn Store>,
        stingy: &Arc<dyn Store>,
        query: Q,
    ) where
        Q::Row: PartialEq + std::fmt::Debug,
    {
        let all = plain.rows(query.clone()).all().await.unwrap();
        assert_eq!(stingy.rows(query).all().await.unwrap(), all);
    }
}
