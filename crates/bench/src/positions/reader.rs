//! The reader who follows the feed while it is written, and notices when something is missing or out of order.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::{Client, Row, Statement};

use super::ground::Ground;
use crate::clock::now;
use crate::failure::Failure;

/// The reader looks again after this long when there was less than a page.
const PAUSE: Duration = Duration::from_millis(5);
const PAGE: usize = 1_000;
/// How long the reader may take to get to the end when nobody writes any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the reader saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// When each position was seen, in microseconds of the machine's clock.
    pub(super) at: HashMap<i64, u64>,
    /// Events that did not follow the version before them.
    pub(super) disordered: u64,
    /// The last version of each stream.
    versions: HashMap<String, i64>,
}

/// A reader at work.
pub(super) struct Reader {
    /// Where it began.
    pub(super) from: i64,
    /// Told where the end is, once it is known.
    end: watch::Sender<Option<i64>>,
    task: JoinHandle<Result<Seen, Failure>>,
}

impl Reader {
    /// Follows the feed from here on.
    pub(super) async fn start(ground: &Ground) -> Result<Self, Failure> {
        let feed = Feed::from_end(ground).await?;
        let (end, told) = watch::channel(None);
        Ok(Self { from: feed.at, end, task: tokio::spawn(feed.follow(told)) })
    }

    /// Lets it read up to the end, and no further.
    pub(super) async fn finish(self, end: i64) -> Result<Seen, Failure> {
        self.end.send_replace(Some(end));
        self.task.await.map_err(|e| Failure::Answer(e.to_string()))?
    }
}

/// A place in the feed.
pub(super) struct Feed {
    client: Client,
    page: Statement,
    at: i64,
    pub(super) seen: Seen,
}

impl Feed {
    pub(super) async fn from_end(ground: &Ground) -> Result<Self, Failure> {
        let client = ground.connect().await?;
        let page = client.prepare(ground.mechanism.sql().page).await?;
        Ok(Self { client, page, at: ground.end().await?, seen: Seen::default() })
    }

    /// Until it is told where the end is, and has got there.
    async fn follow(mut self, told: watch::Receiver<Option<i64>>) -> Result<Seen, Failure> {
        let mut known: Option<Instant> = None;
        loop {
            let end = *told.borrow();
            if end.is_some_and(|end| self.at >= end) {
                return Ok(self.seen);
            }
            if end.is_some() && known.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
                return Err(Failure::Answer(format!("the feed stands still at position {}", self.at)));
            }
            if self.read().await? < PAGE {
                sleep(PAUSE).await;
            }
        }
    }

    /// Reads the next page; gives the number of events.
    pub(super) async fn read(&mut self) -> Result<usize, Failure> {
        let rows = self.client.query(&self.page, &[&self.at]).await?;
        let now = now();
        for row in &rows {
            self.at = row.get("position");
            self.seen.note(row, now);
        }
        Ok(rows.len())
    }
}

impl Seen {
    fn note(&mut self, row: &Row, now: u64) {
        self.at.insert(row.get("position"), now);
        let version: i64 = row.get("version");
        let before = self.versions.insert(row.get("stream"), version);
        if before.is_some_and(|before| before + 1 != version) {
            self.disordered += 1;
        }
    }
}
