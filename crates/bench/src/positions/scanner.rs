//! The reader who reads everything, as fast as it can, and starts over: a rebuild while the service goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::JoinHandle;
use tokio_postgres::{Client, Statement};

use super::ground::Ground;
use crate::failure::Failure;

/// A scanner at work.
pub(super) struct Scanner {
    over: Arc<AtomicBool>,
    task: JoinHandle<Result<u64, Failure>>,
}

impl Scanner {
    pub(super) async fn start(ground: &Ground) -> Result<Self, Failure> {
        let client = ground.connect().await?;
        let page = client.prepare(ground.mechanism.sql().page).await?;
        let over = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(scan(client, page, over.clone()));
        Ok(Self { over, task })
    }

    /// Stops it; gives the number of events it has read.
    pub(super) async fn finish(self) -> Result<u64, Failure> {
        self.over.store(true, Ordering::Relaxed);
        self.task.await.map_err(|e| Failure::Answer(e.to_string()))?
    }
}

async fn scan(client: Client, page: Statement, over: Arc<AtomicBool>) -> Result<u64, Failure> {
    let (mut at, mut read) = (0_i64, 0);
    while !over.load(Ordering::Relaxed) {
        let rows = client.query(&page, &[&at]).await?;
        read += rows.len() as u64;
        at = rows.last().map_or(0, |row| row.get("position"));
    }
    Ok(read)
}
