//! Events, read from the store's own table into owned values.

use std::hint::black_box;

use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::driver;
use crate::failure::Failure;
use crate::fixture::StoreFixture;
use crate::measure::{Baseline, Caller};

const LOAD: &str =
    "SELECT position, stream, version, id, type, payload, metadata, recorded_at FROM events
    WHERE stream = $1 ORDER BY version";

const PAGE: &str =
    "SELECT position, stream, version, id, type, payload, metadata, recorded_at FROM events
    WHERE position > $1 ORDER BY position LIMIT $2";

/// One stream in every read, all of it.
pub(in crate::baseline) async fn loads(
    schemas: &StoreFixture,
    clients: usize,
    events: usize,
) -> Result<Vec<Baseline>, Failure> {
    let mut loaders = Vec::with_capacity(clients);
    for number in 0..clients {
        let client = schemas.client().await?;
        let names = client.query("SELECT name FROM streams ORDER BY name", &[]).await?;
        let streams = names.iter().map(|row| row.get(0)).collect();
        let select = client.prepare(LOAD).await?;
        loaders.push(Loader { client, select, streams, events, next: number * 7 });
    }
    Ok(vec![driver(loaders)])
}

/// One page in every read.
pub(in crate::baseline) async fn feed(
    schemas: &StoreFixture,
    page: usize,
) -> Result<Vec<Baseline>, Failure> {
    let client = schemas.client().await?;
    let select = client.prepare(PAGE).await?;
    Ok(vec![driver(vec![Follower { client, select, page: page as i64, after: 0 }])])
}

struct Loader {
    client: Client,
    select: Statement,
    streams: Vec<String>,
    events: usize,
    next: usize,
}

impl Caller for Loader {
    async fn call(&mut self) -> Result<u64, Failure> {
        let stream = &self.streams[self.next % self.streams.len()];
        self.next += 1;
        match read(&self.client.query(&self.select, &[stream]).await?).len() {
            events if events == self.events => Ok(1),
            other => {
                Err(Failure::Answer(format!("baseline: stream {stream:?} has {other} events")))
            }
        }
    }
}

struct Follower {
    client: Client,
    select: Statement,
    page: i64,
    after: i64,
}

impl Caller for Follower {
    async fn call(&mut self) -> Result<u64, Failure> {
        let events = read(&self.client.query(&self.select, &[&self.after, &self.page]).await?);
        self.after = events.last().map_or(0, |event| event.position);
        Ok(events.len() as u64)
    }
}

/// What a row says, owned.
#[allow(dead_code)] // made to be made, not to be looked at
struct Event {
    position: i64,
    stream: String,
    version: i64,
    id: Uuid,
    event_type: String,
    payload: String,
    metadata: String,
    recorded_at: i64,
}

fn read(rows: &[Row]) -> Vec<Event> {
    black_box(rows.iter().map(event).collect())
}

fn event(row: &Row) -> Event {
    Event {
        position: row.get(0),
        stream: row.get(1),
        version: row.get(2),
        id: row.get(3),
        event_type: row.get(4),
        payload: row.get(5),
        metadata: row.get(6),
        recorded_at: row.get(7),
    }
}
