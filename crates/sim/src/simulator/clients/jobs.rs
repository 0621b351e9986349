//! A queue of the user's own: jobs are enqueued, leased, and settled in every way.

use std::time::Duration;

use tidelock::store::{Commit, NewEvent, Settlement, StreamName};
use tidelock::{ExpectedVersion, Tidelock};

use super::Client;
use crate::simulator::mutants::Mutant;
use crate::simulator::process::Process;

impl Client {
    pub(super) async fn enqueue(&self, id: &str) {
        self.process.world.asks("job", id);
        let queue = self.tidelock.queue("jobs");
        let enqueued = self.insist(async || queue.enqueue(id).operation_id(id).await).await;
        match enqueued {
            Some(Ok(_)) => self.process.world.told("job", id),
            Some(Err(error)) => self.strange("an enqueue", &error),
            None => {}
        }
    }
}

/// Serves the jobs until the process ends.
pub(crate) async fn serve(process: Process, tidelock: Tidelock) {
    let queue = tidelock.queue("jobs");
    loop {
        if process.stopping().is_cancelled() {
            return;
        }
        let leases = queue.lease(process.name()).duration(process.world.plan.lease).limit(2);
        let Ok(leased) = leases.within(Duration::from_secs(5)).await else {
            process.sleep(Duration::from_millis(500)).await;
            continue;
        };
        for job in leased {
            process.alive().await;
            if job.lease.expiries > 0 {
                process.world.sometimes("queue item is leased again");
            }
            let pause = process.draw(|rng| rng.millis(0, 400));
            process.sleep(pause).await;
            let (token, key) = (job.lease.token(), job.lease.item.key.to_string());
            let way = process.draw(|rng| rng.below(8));
            let settlement = match way {
                0 => Settlement::retry(token, Duration::from_millis(300), "a simulated failure"),
                1 => Settlement::release(token),
                _ => {
                    // The effect lands in the commit that ends the lease.
                    let Ok(event) = NewEvent::of("worked", &key) else { continue };
                    let stream = StreamName::new("worked").expect("it is short and plain");
                    let mut commit = Commit::new().append(&stream, ExpectedVersion::Any, [event]);
                    match process.is(Mutant::JobsAckFirst) {
                        true => drop(queue.settle(vec![job.lease.ack()]).await),
                        false => commit = commit.settle(job.lease.ack()),
                    }
                    let _settled_or_leased_again = tidelock.store().commit(commit).await;
                    continue;
                }
            };
            let _settled_or_leased_again = queue.settle(vec![settlement]).await;
        }
    }
}
