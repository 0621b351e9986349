//! An idle application costs next to nothing, however many targets there are.
//!
//! In memory, where a minute passes at once: it is calls that are counted, and every store gets the same ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::worker::WorkerOptions;
use tidelock::{
    Adjusted, Adjustment, Capabilities, CommitOutcome, FeedPage, HeadPage, ItemPage, LeaseToken, Leased,
    RecordPage, Renewal, Result, Signal, StoredEvent, StreamPage, Timestamp, async_trait,
};

use crate::stage::{Running, Seen, Stage, in_memory, note, until};

/// Counts the calls on a store.
#[derive(Debug)]
struct Counting {
    store: Arc<dyn Store>,
    calls: Arc<AtomicU64>,
}

impl Counting {
    fn counted(&self) -> &dyn Store {
        self.calls.fetch_add(1, Ordering::SeqCst);
        &*self.store
    }
}

#[async_trait]
impl Store for Counting {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }
    async fn now(&self) -> Result<Timestamp> {
        self.counted().now().await
    }
    async fn commit(&self, commit: Commit) -> Result<CommitOutcome> {
        self.counted().commit(commit).await
    }
    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.counted().read_stream(query).await
    }
    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        self.counted().read_feed(query).await
    }
    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.counted().heads(query).await
    }
    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.counted().get(keys).await
    }
    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.counted().scan(query).await
    }
    async fn lease(&self, request: LeaseRequest) -> Result<Leased> {
        self.counted().lease(request).await
    }
    async fn renew(&self, leases: &[LeaseToken], duration: Duration) -> Result<Vec<Renewal>> {
        self.counted().renew(leases, duration).await
    }
    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.counted().items(query).await
    }
    async fn adjust(&self, filter: ItemFilter, adjustment: Adjustment) -> Result<Adjusted> {
        self.counted().adjust(filter, adjustment).await
    }
    fn signal(&self, topic: Topic) -> Signal {
        self.store.signal(topic)
    }
    async fn close(&self) -> Result<()> {
        self.store.close().await
    }
}

/// REACT-21.
#[test]
fn an_idle_application_makes_a_handful_of_calls_a_second_however_many_targets_and_reactions_there_are() {
    in_memory(|stage| async move {
        for (reactions, targets) in [(1, 10), (1, 100_000), (40, 10)] {
            let rate = idle_rate(&stage, reactions, targets).await;
            assert!(rate < 8.0, "{rate} calls a second with {reactions} reactions and {targets} targets");
        }
    });
}

async fn idle_rate(stage: &Stage, reactions: usize, targets: usize) -> f64 {
    let plain = stage.tidelock().await;
    for chunk in (0..targets).collect::<Vec<_>>().chunks(1_000) {
        let wake = |nth: &usize| {
            Wake::to_mark(
                ItemRef::parse("~reaction/idle-0", &format!("target-{nth}")).unwrap(),
                Mark::new(1).unwrap(),
            )
        };
        let commit = Commit { wakes: chunk.iter().map(wake).collect(), ..Commit::new() };
        plain.store().commit(commit).await.unwrap().committed().unwrap();
    }
    let (calls, seen) = (Arc::new(AtomicU64::new(0)), Seen::default());
    let counting = Tidelock::over(Arc::new(Counting { store: plain.store().clone(), calls: calls.clone() }));
    let mut app = counting.app().worker(WorkerOptions::new(WorkerName::new("idle").unwrap()));
    for nth in 0..reactions {
        let noted = seen.clone();
        app = app.reaction(&format!("idle-{nth}"), on_any(), move |_: StoredEvent, _| {
            let noted = noted.clone();
            async move {
                noted.note("x");
                Ok(())
            }
        });
    }
    let running = Running::start(app);
    let filter = ItemFilter::queue("~reaction/idle-0").held(false);
    let quiet = async || {
        let page = plain.store().items(ItemQuery::new(filter.clone())).await.unwrap();
        page.items.iter().all(|item| item.due.is_none())
    };
    until("nothing is due", quiet).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = calls.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let rate = (calls.load(Ordering::SeqCst) - before) as f64 / 600.0;
    let handled = seen.count();
    note(&plain, "fresh", "x").await;
    seen.until(handled + reactions).await;
    running.stop().await;
    rate
}
