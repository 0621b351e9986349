//! A store whose pages are as small as they may be.
//!
//! Every read of more than one thing may answer with less than was asked for, and with nothing at
//! all, though more follows: a store looks at so many rows and no more. That happens after
//! thousands of rows; here it happens at once, and at random.

use std::sync::{Arc, Mutex};

use tidelock::prelude::*;
use tidelock::store::Result;
use tidelock::{FeedPage, HeadPage, ItemPage, RecordPage, StoreLayer, StreamPage, async_trait};

/// The variable that makes every stage stingy, with the seed that it names.
const SEED: &str = "TIDELOCK_STINGY";
/// Pages without a row that follow each other, at most: what looks for something must find it some
/// time.
const EMPTY: usize = 2;

/// A store that answers each page with 0 to 2 rows, and says where to go on.
///
/// A page of a stream has at least one event if there is any: there is no place between two
/// versions to go on from. So has a page of the feed, unless it is filtered.
#[derive(Debug)]
pub struct Stingy {
    store: Arc<dyn Store>,
    dice: Mutex<Dice>,
}

#[derive(Debug)]
struct Dice {
    random: fastrand::Rng,
    /// Pages without a row that came last.
    empty: usize,
}

/// The seed that every stage is to be stingy with, if there is one.
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

    /// The same, from the seed that was said, or from one that nobody knows; a test that fails says
    /// which it was.
    pub fn at_random(store: Arc<dyn Store>) -> Arc<dyn Store> {
        let seed = stingy_seed().unwrap_or_else(|| fastrand::u64(..1_000_000));
        println!("small pages: {SEED}={seed} plays them again");
        Self::over(store, seed)
    }

    /// How many rows of the next page to show: 0 to 2.
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

/// A name that comes after this one and before that one, if there is room.
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

    /// Looks at a few events and no more, and so shows none if none of them passes.
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
        // There may be more, for all that is known, after the last of them.
        if page.next.is_none() && self.coin() {
            page.next = page.records.last().map(|record| record.key.clone());
        }
        Ok(page)
    }

    async fn items(&self, mut query: ItemQuery) -> Result<ItemPage> {
        if query.filter.one().is_some() {
            // What is found by its name is found by every store, at once.
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
    use tidelock::MemoryStore;

    use super::*;
    use crate::many_events;

    /// What is read to its end is all there, and some pages on the way are empty.
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

    async fn assert_same<Q: tidelock::Paged>(
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
