//! What requests cost the store, compared with the promised bounds.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use tidelock::store::{
    Commit, FeedPage, FeedQuery, HeadPage, HeadQuery, ItemPage, ItemQuery, ItemRef, Mark, NewEvent,
    RecordKey, RecordPage, RecordQuery, Result, Slot, Store, StoreExt, StoreLayer, StreamName,
    StreamPage, StreamQuery, Wake, async_trait,
};
use tidelock::{ExpectedVersion, Tidelock, Timestamp};
use tidelock_http::Api;
use tidelock_test_stage::{TestStore, append, until};
use tower_service::Service;

use crate::follow::Listener;
use crate::harness::{READER, Server, WRITER, tokens};

/// Counts reads of a store, and the rows they return.
#[derive(Debug)]
struct Counted {
    store: Arc<dyn Store>,
    /// The rows of each read.
    reads: Mutex<Vec<usize>>,
    /// Pages that followers read, recognized by their page size; and the events in them.
    followed: (AtomicUsize, AtomicUsize),
}

/// The page size of a follower.
const FOLLOW_PAGE: usize = 100;

impl Counted {
    fn over(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, reads: Mutex::default(), followed: Default::default() })
    }

    fn note<T>(&self, page: Result<T>, rows: impl Fn(&T) -> usize) -> Result<T> {
        self.reads.lock().unwrap().push(page.as_ref().map_or(0, rows));
        page
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    /// How many pages followers read, and how many events were in them.
    fn followed(&self) -> (usize, usize) {
        (self.followed.0.load(Ordering::SeqCst), self.followed.1.load(Ordering::SeqCst))
    }
}

#[async_trait]
impl StoreLayer for Counted {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn now(&self) -> Result<Timestamp> {
        self.note(self.store.now().await, |_| 1)
    }

    async fn read_stream(&self, query: StreamQuery) -> Result<StreamPage> {
        self.note(self.store.read_stream(query).await, |page| page.events.len())
    }

    async fn read_feed(&self, query: FeedQuery) -> Result<FeedPage> {
        let is_followed = query.limit == FOLLOW_PAGE;
        self.followed.0.fetch_add(usize::from(is_followed), Ordering::SeqCst);
        let page = self.store.read_feed(query).await;
        if let (true, Ok(page)) = (is_followed, &page) {
            self.followed.1.fetch_add(page.events.len(), Ordering::SeqCst);
        }
        self.note(page, |page| page.events.len())
    }

    async fn heads(&self, query: HeadQuery) -> Result<HeadPage> {
        self.note(self.store.heads(query).await, |page| page.heads.len())
    }

    async fn get(&self, keys: &[RecordKey]) -> Result<Vec<Slot>> {
        self.note(self.store.get(keys).await, Vec::len)
    }

    async fn scan(&self, query: RecordQuery) -> Result<RecordPage> {
        self.note(self.store.scan(query).await, |page| page.records.len())
    }

    async fn items(&self, query: ItemQuery) -> Result<ItemPage> {
        self.note(self.store.items(query).await, |page| page.items.len())
    }
}

/// The maximum number of reads, and of rows over all of them: a thousand held and a thousand
/// blocked items are counted.
const READS: usize = 100;
const ROWS: usize = 3_000;

/// Adds so many events, streams, items and records.
async fn grow(store: &dyn Store, from: usize, to: usize) {
    for first in (from..to).step_by(300) {
        let commit = (first..to.min(first + 300)).fold(Commit::new(), |commit, nth| {
            let stream = StreamName::new(format!("order-{nth}")).unwrap();
            let item = ItemRef::parse("mail", &nth.to_string()).unwrap();
            let key = RecordKey::new(format!("sold/{nth}")).unwrap();
            commit
                .append(&stream, ExpectedVersion::NoStream, [NewEvent::of("placed", &nth).unwrap()])
                .wake(Wake::to_mark(item, Mark::new(1).unwrap()))
                .write(tidelock::store::RecordWrite::add(&key, 1, tidelock::store::Bounds::NONE))
        });
        store.commit(commit).await.unwrap().committed().unwrap();
    }
}

/// HTTP-17. With an empty store, with data, and with ten times that.
async fn the_overview_costs_a_bounded_number_of_small_reads(stage: TestStore) {
    let counted = Counted::over(stage.store().await);
    let tidelock = Tidelock::over(counted.clone());
    let mut before = 0;
    for many in [0, 1_200, 12_000] {
        grow(&*counted, before, many).await;
        before = many;
        // A new server each time: there was no viewer before.
        let server = Server::start_over(tidelock.clone(), |api| api.tokens(tokens())).await;
        counted.take();
        let overview = server.client(READER).get("/v1/overview").await.ok(200);
        server.stop().await;
        let reads = counted.take();
        assert!(
            overview["now"]["leased"].is_u64() && overview["now"]["blocked"].is_u64(),
            "{overview}"
        );
        assert!(
            !reads.is_empty() && reads.len() <= READS,
            "{} reads with {many} of everything",
            reads.len()
        );
        let rows: usize = reads.iter().sum();
        assert!(rows <= ROWS, "{rows} rows with {many} of everything: {reads:?}");
    }
}

/// HTTP-13. More than the socket buffers hold, so that unread data stays with the server. Where
/// pages are small the buffers hold several of them, and still less than a whole page.
async fn one_page_is_read_for_a_reader_that_reads_nothing(stage: TestStore) {
    let counted = Counted::over(stage.store().await);
    let server =
        Server::start_over(Tidelock::over(counted.clone()), |api| api.tokens(tokens())).await;
    let note = async |count: usize| {
        let large = json!({ "events": [{ "type": "noted", "data": "x".repeat(200_000) }] });
        for _ in 0..count {
            server.client(WRITER).post("/v1/streams/large/events", &large).await.ok(201);
        }
    };
    note(FOLLOW_PAGE + 20).await;
    let mut slow = Listener::open(&server, "/v1/events/follow", None).await;
    until("its first page is read", async || counted.followed().0 > 0).await;
    // Writers do not wait for it, and nothing more is read for it in the meantime.
    note(20).await;
    let (pages, events) = counted.followed();
    assert!(events <= FOLLOW_PAGE, "{events} events were read, and none was taken");
    assert!(pages == 1 || stage.is_stingy(), "one page, and no more before it is taken");
    assert_eq!(
        slow.data(FOLLOW_PAGE + 40).await.len(),
        FOLLOW_PAGE + 40,
        "and all of it once it is taken"
    );
    drop(slow);
    server.stop().await;
}

/// HTTP-13. Without sockets, whose buffers hold more than one small page: exactly one page is read
/// for each that is taken.
async fn a_page_is_read_when_the_one_before_it_was_taken(stage: TestStore) {
    let counted = Counted::over(stage.store().await);
    let tidelock = Tidelock::over(counted.clone());
    let after = counted.feed_end().await.unwrap();
    let note = async || drop(append(&tidelock, "a", "noted", &json!(1)).await);
    for _ in 0..5 {
        note().await;
    }
    let mut router = Api::over(&tidelock).tokens(tokens()).router();
    let request = Request::get(format!("/v1/events/follow?after={after}"))
        .header("host", "localhost")
        .header("authorization", format!("Bearer {READER}"));
    let response = router.call(request.body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), ": open\n\n");
    let mut read = (0, 0);
    for taken in 0..8 {
        // A page is read only once all events of the pages before it were taken.
        let (pages, events) = counted.followed();
        match taken == read.1 {
            true => assert_eq!((pages, events), read, "nothing is read before it can be sent"),
            false => assert!(pages == read.0 && taken < events, "one page at a time"),
        }
        if pages < 3 {
            note().await;
        }
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(frame.windows(2).filter(|end| end == b"\n\n").count(), 1, "one event");
        read = counted.followed();
    }
}

over_sockets!(
    the_overview_costs_a_bounded_number_of_small_reads,
    one_page_is_read_for_a_reader_that_reads_nothing,
    a_page_is_read_when_the_one_before_it_was_taken,
);
