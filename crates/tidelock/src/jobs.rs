//! Jobs: typed work that a program hands to a queue, done once by any process that has its handler.
//!
//! A job is a work item of a [queue](crate::queues) with its payload as the item's data. Nothing
//! else exists for it in the store, except a small record for what the item has no room for: the
//! progress, the metadata, and what became of the job. The worker, the leases, the retries and the
//! unit of work are those of reactions and runs. So a job is enqueued in the same commit as
//! everything else, and what its handler stages lands with its end.
//!
//! Under a key a job is unique: its payload's record exists from the commit that enqueues it until
//! the commit that ends it, and both compare it.

mod app;
mod context;
mod definition;
mod enqueue;
mod enqueue_all;
mod info;
mod job;
mod job_record;
mod key_limit;
mod keys;
mod line;
mod operators;
mod options;
mod work;

use crate::handle::Tidelock;

pub use context::JobCtx;
pub(crate) use definition::Definition;
pub(crate) use enqueue::EnqueueRequest;
pub use enqueue::{Enqueue, Enqueued, OnDuplicate};
pub use enqueue_all::EnqueueAll;
pub use info::{JobFilter, JobInfo, JobState};
pub use job::Job;
pub use operators::Jobs;
pub use options::JobOptions;
pub(crate) use work::JobWork;

/// Derives [`Job`](trait@Job): `#[derive(Job)] #[job(queue = "mail")]`.
pub use tidelock_derive::Job;

impl Tidelock {
    /// Enqueues a job, due immediately by default: see [`Enqueue`].
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    /// use serde::{Deserialize, Serialize};
    /// use tidelock::prelude::*;
    ///
    /// #[derive(Serialize, Deserialize)]
    /// struct SendMail { to: String }
    /// impl Job for SendMail { const QUEUE: &'static str = "mail"; }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// let tidelock = Tidelock::open("memory:").await?;
    /// tidelock.enqueue(&SendMail { to: "ada@example.com".into() }).await?;
    ///
    /// let reminder = SendMail { to: "bob@example.com".into() };
    /// let later = tidelock.enqueue(&reminder).key("reminder-7").at(Duration::from_secs(3_600)).await?;
    /// assert!(later.is_new());
    /// let again = tidelock.enqueue(&reminder).key("reminder-7").await?;
    /// assert!(!again.is_new());
    /// # Ok(())
    /// # }
    /// ```
    pub fn enqueue<J: Job>(&self, job: &J) -> Enqueue<J> {
        Enqueue::into_store(self, job)
    }

    /// Enqueues jobs of one type, in as few commits as the limits allow: see [`EnqueueAll`].
    ///
    /// # Examples
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use tidelock::prelude::*;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct SendMail { to: String }
    /// # impl Job for SendMail { const QUEUE: &'static str = "mail"; }
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidelock::Result<()> {
    /// # let tidelock = Tidelock::open("memory:").await?;
    /// let mails = (0..1_000).map(|nth| SendMail { to: format!("{nth}@example.com") });
    /// let enqueued = tidelock.enqueue_all(mails).keys(|mail| mail.to.clone()).await?;
    /// assert!(enqueued.iter().all(|job| job.is_new()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn enqueue_all<J: Job>(&self, jobs: impl IntoIterator<Item = J>) -> EnqueueAll<J> {
        EnqueueAll::new(self, jobs)
    }

    /// Returns the operator's view of the store's jobs, whichever process handles them.
    pub fn jobs(&self) -> Jobs {
        Jobs::new(self.clone())
    }
}
