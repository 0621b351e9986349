//! Typed jobs: each is enqueued under a key, and leaves its trace in the commit that ends it.

use tidelock::jobs::{Enqueued, JobCtx};
use tidelock::store::{NewEvent, StreamName};
use tidelock::{ExpectedVersion, HandlerError};

use super::Client;
use crate::simulator::app::fail_sometimes;
use crate::simulator::process::Process;
use crate::simulator::state::Chore;

impl Client {
    /// Enqueues a job under a key, perhaps several times: there is one.
    pub(super) async fn ask_for_chore(&self, id: &str) {
        let (again, by_operation) = self.draw(|rng| (rng.one_in(3), rng.one_in(2)));
        let chore = Chore { id: id.to_owned() };
        self.process.world.asks("chore", id);
        for _ in 0..=u32::from(again) {
            let enqueue = async || {
                let enqueue = self.tidelock.enqueue(&chore).key(id);
                if by_operation { enqueue.operation_id(id).await } else { enqueue.await }
            };
            match self.insist(enqueue).await {
                Some(Ok(enqueued)) => {
                    if matches!(enqueued, Enqueued::Duplicate(_)) {
                        self.sometimes("job is a duplicate");
                    }
                    self.process.world.told("chore", id);
                }
                Some(Err(error)) => return self.strange("a job", &error),
                None => return,
            }
        }
    }
}

/// Handles a job.
pub(crate) async fn handle(
    process: Process,
    chore: Chore,
    ctx: JobCtx,
) -> Result<String, HandlerError> {
    process.alive().await;
    if process.world.effect("chore", ctx.effect_key()) > 1 {
        process.world.sometimes("job runs again");
    }
    fail_sometimes(&process).await?;
    let done = NewEvent::of("done", &chore.id)?;
    ctx.append_to(&StreamName::new("chores")?, ExpectedVersion::Any, [done])?;
    process.alive().await;
    Ok(chore.id)
}
