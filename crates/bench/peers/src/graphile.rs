//! graphile_worker, the Rust version of Graphile Worker.
//!
//! Its own throughput benchmark (`perf_test`) fetches through a local queue and completes jobs in
//! batches, every 5 ms; so does this.

use std::sync::Arc;
use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, Worker, WorkerContext,
    WorkerOptions, WorkerUtils,
};
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::Result;
use crate::counted::count_one;
use crate::protocol::{Enqueuer, Peer, Place, note};

/// Enough for 32 callers, and for fetches and completions.
const CONNECTIONS: u32 = 40;
/// Jobs that a process fetches at once.
const LOCAL_QUEUE: usize = 5_000;
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Work {
    note: String,
}

impl TaskHandler for Work {
    const IDENTIFIER: &'static str = "work";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        count_one();
        Ok::<(), String>(())
    }
}

pub(crate) struct Graphile {
    worker: Arc<Worker>,
    running: Option<JoinHandle<Result<()>>>,
}

impl Graphile {
    pub(crate) async fn open(place: &Place, slots: usize) -> Result<Self> {
        let worker = WorkerOptions::default()
            .database_url(&place.url)
            .max_pg_conn(CONNECTIONS)
            .schema(place.schema.as_str())
            .concurrency(slots)
            .poll_interval(PAUSE)
            .complete_job_batch_delay(PAUSE)
            .local_queue(LocalQueueConfig::default().with_size(LOCAL_QUEUE))
            .listen_os_shutdown_signals(false)
            .define_job::<Work>()
            .init()
            .await?;
        Ok(Self { worker: Arc::new(worker), running: None })
    }
}

impl Peer for Graphile {
    type Enqueuer = Adder;

    fn enqueuer(&self) -> Adder {
        Adder(self.worker.create_utils())
    }

    async fn work(&mut self) -> Result<()> {
        let worker = self.worker.clone();
        self.running = Some(tokio::spawn(async move { Ok(worker.run().await?) }));
        Ok(())
    }

    async fn stop(self) -> Result<()> {
        let Some(running) = self.running else { return Ok(()) };
        self.worker.request_shutdown();
        running.await?
    }
}

pub(crate) struct Adder(WorkerUtils);

impl Enqueuer for Adder {
    async fn enqueue(&self) -> Result<()> {
        self.0.add_job(Work { note: note() }, JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_all(&self, jobs: usize) -> Result<()> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = (0..jobs).map(|_| (Work { note: note() }, &spec)).collect();
        self.0.add_jobs::<Work>(&jobs).await?;
        Ok(())
    }
}
