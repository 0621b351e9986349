//! Random histories: correct ones pass, and of each mutation a stated share fails.
//!
//! `TIDELOCK_SEED` sets the first seed.

use fastrand::Rng;

use super::model::{self, Size};
use super::mutations::MUTATIONS;
use crate::checkers::check;
use crate::history::History;

const SEEDS: u64 = 40;

fn first_seed() -> u64 {
    let seed = std::env::var("TIDELOCK_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or(1);
    println!("TIDELOCK_SEED={seed}");
    seed
}

fn size(seed: u64, operations: usize) -> Size {
    Size { operations, clients: 2 + seed as usize % 7, keys: 3 }
}

#[test]
fn nothing_is_found_in_correct_histories() {
    for seed in first_seed()..first_seed() + SEEDS {
        let (history, audit) = model::history(seed, size(seed, 300));
        let report = check(&history, &audit);
        assert_eq!(report.to_string(), "", "seed {seed}");
    }
}

#[test]
fn the_stated_share_of_every_mutation_is_found() {
    let first = first_seed();
    for (name, mutate, share) in MUTATIONS {
        let (mut tried, mut found) = (0, 0);
        for seed in first..first + SEEDS {
            let (mut history, mut audit) = model::history(seed, size(seed, 150));
            if mutate(&mut Rng::with_seed(seed), &mut history, &mut audit) {
                tried += 1;
                found += u32::from(!check(&history, &audit).violations.is_empty());
            }
        }
        println!("{name}: {found} of {tried}");
        assert!(tried > SEEDS as u32 / 2, "{name}: only {tried} histories can be changed so");
        assert!(found * 100 >= share * tried, "{name}: {found} of {tried} are found");
    }
}

#[test]
fn a_history_is_the_same_after_it_was_written_and_read() {
    let (history, _) = model::history(1, size(1, 200));
    let mut lines = Vec::new();
    history.write(&mut lines).unwrap();
    assert_eq!(History::read(&lines[..]).unwrap(), history);
    // A process was killed in the middle of a line.
    lines.extend(b"{\"invoked\":{\"op\":");
    assert_eq!(History::read(&lines[..]).unwrap(), history);
    lines.extend(b"\n{}\n");
    assert!(History::read(&lines[..]).is_err());
}
