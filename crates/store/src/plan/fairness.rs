//! Fair scheduling: which due items are leased, and in what order.
//!
//! Higher priority goes first, but one slot in every [`AGE_RESERVE`](limits::AGE_RESERVE) goes to
//! the item that has been due longest. The count of slots continues from call to call, so the
//! reserve also holds for workers that lease one item at a time.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Timestamp;
use crate::leases::LeaseRequest;
use crate::limits;
use crate::names::{ItemKey, LaneName, QueueName};
use crate::numbers::Priority;

/// An item that can be leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Since when it can be leased.
    pub ready_at: Timestamp,
    /// Its priority.
    pub priority: Priority,
    /// Its key.
    pub key: ItemKey,
}

/// Counts the slots given out, by queue and lane.
#[derive(Debug, Default)]
pub struct FairShare {
    given: Mutex<HashMap<Place, u64>>,
}

type Place = (QueueName, Option<LaneName>);

impl FairShare {
    /// Selects up to the request's limit, in order, and counts them. The candidates must include,
    /// for each priority and lane, the longest due items, as many as the request asks for.
    pub fn choose(&self, request: &LeaseRequest, candidates: Vec<Candidate>) -> Vec<ItemKey> {
        let chosen = self.order(request, candidates, request.limit);
        self.count(request, chosen.len());
        chosen
    }

    /// Selects and orders the first `n` candidates without counting them. A store that may find
    /// some of them taken asks for more than it needs, and counts what it got.
    pub fn order(
        &self,
        request: &LeaseRequest,
        mut candidates: Vec<Candidate>,
        most: usize,
    ) -> Vec<ItemKey> {
        let turn = self.lock().get(&place(request)).copied().unwrap_or_default();
        choose(&mut candidates, most, turn)
    }

    /// Counts slots that were given out.
    pub fn count(&self, request: &LeaseRequest, leased: usize) {
        // Requests for queues that do not exist must not grow the map.
        if leased > 0 {
            *self.lock().entry(place(request)).or_default() += leased as u64;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, u64>> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn place(request: &LeaseRequest) -> Place {
    (request.queue.clone(), request.lane.clone())
}

fn choose(candidates: &mut [Candidate], limit: usize, turn: u64) -> Vec<ItemKey> {
    candidates.sort_by(|a, b| by_age(a).cmp(&by_age(b)));
    let mut by_priority: Vec<usize> = (0..candidates.len()).collect();
    by_priority.sort_by_key(|at| Reverse(candidates[*at].priority));
    let mut taken = vec![false; candidates.len()];
    let (mut oldest, mut urgent) = (0..candidates.len(), by_priority.into_iter());
    let mut chosen = Vec::with_capacity(limit.min(candidates.len()));
    for slot in turn..turn.saturating_add(limit as u64) {
        let next = if slot % limits::AGE_RESERVE == limits::AGE_RESERVE - 1 {
            oldest.find(|at| !taken[*at])
        } else {
            urgent.find(|at| !taken[*at])
        };
        let Some(at) = next else { break };
        taken[at] = true;
        chosen.push(candidates[at].key.clone());
    }
    chosen
}

fn by_age(candidate: &Candidate) -> (Timestamp, &ItemKey) {
    (candidate.ready_at, &candidate.key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(key: &str, priority: i16, ready_at: i64) -> Candidate {
        Candidate {
            ready_at: Timestamp::from_micros(ready_at).unwrap(),
            priority: Priority::new(priority).unwrap(),
            key: ItemKey::new(key).unwrap(),
        }
    }

    fn chosen(limit: usize, turn: u64) -> Vec<String> {
        let mut due = vec![
            candidate("urgent-new", 9, 30),
            candidate("urgent-old", 9, 20),
            candidate("low-old", -9, 1),
            candidate("normal", 0, 10),
            candidate("low-new", -9, 2),
        ];
        choose(&mut due, limit, turn).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_fourth_slot_goes_to_the_longest_due() {
        assert_eq!(chosen(5, 0), ["urgent-old", "urgent-new", "normal", "low-old", "low-new"]);
        assert_eq!(chosen(2, 3), ["low-old", "urgent-old"]);
        assert_eq!(chosen(1, 2), ["urgent-old"]);
        assert_eq!(chosen(1, 3), ["low-old"], "also for those who lease one at a time");
    }
}
