//! Which of the items that are due are leased, and in what order.
//!
//! Higher priority first, but one slot in every [`AGE_RESERVE`](limits::AGE_RESERVE) goes to whatever has been due
//! longest. The count of slots goes on from call to call, so that the reserve holds for workers who lease one item
//! at a time too.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::clock::Timestamp;
use crate::leases::LeaseRequest;
use crate::limits;
use crate::marks::Priority;
use crate::names::{ItemKey, LaneName, QueueName};

/// An item that could be leased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Since when it could.
    pub ready_at: Timestamp,
    /// How urgent it is.
    pub priority: Priority,
    /// Which it is.
    pub key: ItemKey,
}

/// Counts the slots given out, by queue and lane.
#[derive(Debug, Default)]
pub struct Turns {
    given: Mutex<HashMap<(QueueName, Option<LaneName>), u64>>,
}

impl Turns {
    /// Chooses up to the request's limit, in order. The candidates must hold, for each priority and lane, as many of
    /// those that have been due longest as the request asks for.
    pub fn choose(&self, request: &LeaseRequest, mut candidates: Vec<Candidate>) -> Vec<ItemKey> {
        if candidates.is_empty() {
            // Nothing is counted for queues that anybody can make up by asking for them.
            return Vec::new();
        }
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = given.entry((request.queue.clone(), request.lane.clone())).or_default();
        let chosen = choose(&mut candidates, request.limit, *turn);
        *turn += chosen.len() as u64;
        chosen
    }
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
