//! Change hints of the simulated store: each waiter has its own, so that the seed decides when and
//! in which order waiters learn of a change. The runtime's own channels wake several waiters of one
//! channel in an order that no seed controls.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidelock::store::{ChangeHint, ChangeHints, Commit, Topic};
use tokio::time::sleep;

use super::fault::Fault;
use super::rng::Rng;
use super::world::World;

/// The waiters.
#[derive(Debug)]
pub(crate) struct Wakes {
    state: Mutex<(Rng, Vec<Waiter>)>,
}

#[derive(Debug, Clone)]
struct Waiter {
    topic: Topic,
    hints: ChangeHints,
}

impl Wakes {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { state: Mutex::new((rng, Vec::new())) }
    }

    /// Takes a hint for this topic.
    pub(crate) fn signal(&self, topic: Topic) -> ChangeHint {
        let hints = ChangeHints::default();
        let hint = hints.signal(topic.clone());
        let waiters = &mut self.lock().1;
        waiters.retain(|waiter| waiter.hints.any_waiter());
        waiters.push(Waiter { topic, hints });
        hint
    }

    /// Wakes the waiters of these topics: at once, late, twice or not at all.
    pub(crate) fn changed(&self, world: &World, topics: &[Topic]) {
        if topics.is_empty() {
            return;
        }
        let (rng, waiters) = &mut *self.lock();
        for waiter in waiters.iter().filter(|waiter| topics.contains(&waiter.topic)) {
            let mut strikes = |fault| {
                let strikes = !world.is_calm() && rng.happens(world.plan.often(fault));
                if strikes {
                    world.small_fault(fault);
                }
                strikes
            };
            if strikes(Fault::LostWake) {
                continue;
            }
            let (late, doubled) = (strikes(Fault::LateWake), strikes(Fault::DoubledWake));
            let delay = if late { rng.millis(50, 3_000) } else { rng.millis(0, 3) };
            let later = doubled.then(|| rng.millis(1, 500));
            let hints = waiter.hints.clone();
            tokio::spawn(async move {
                sleep(delay).await;
                hints.notify_all();
                if let Some(later) = later {
                    sleep(later).await;
                    hints.notify_all();
                }
            });
        }
    }

    /// Wakes everything: the store cannot say what changed.
    pub(crate) fn all(&self) {
        self.lock().1.iter().for_each(|waiter| waiter.hints.notify_all());
    }

    fn lock(&self) -> MutexGuard<'_, (Rng, Vec<Waiter>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a commit changes, and perhaps more.
pub(crate) fn topics(commit: &Commit) -> Vec<Topic> {
    let log = (!commit.appends.is_empty()).then_some(Topic::Log);
    let records = commit.writes.iter().map(|write| Topic::Record(write.key.clone()));
    let woken = commit.wakes.iter().map(|wake| &wake.item.queue);
    let settled = commit.settlements.iter().map(|settlement| &settlement.lease.item.queue);
    let restored = commit.restores.iter().map(|item| &item.item.queue);
    let mut queues: Vec<_> = woken.chain(settled).chain(restored).collect();
    queues.sort();
    queues.dedup();
    let queues = queues.into_iter().map(|queue| Topic::Queue(queue.clone()));
    log.into_iter().chain(records).chain(queues).collect()
}
