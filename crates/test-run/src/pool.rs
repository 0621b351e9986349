//! A pool that runs a number of binaries in parallel.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;

use crate::binary::{Binary, Ran};

/// Runs all of them, prints each result, and returns the failed ones.
pub(crate) fn run(binaries: Vec<Binary>, filter: &[String], at_once: usize) -> Vec<Binary> {
    let waiting = Mutex::new(VecDeque::from(binaries));
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| work(&waiting, filter, &failed));
        }
    });
    failed.into_inner().expect("no worker panics")
}

fn work(waiting: &Mutex<VecDeque<Binary>>, filter: &[String], failed: &Mutex<Vec<Binary>>) {
    while let Some(binary) = next(waiting) {
        let ran = binary.run(filter);
        tell(&binary, &ran);
        if !ran.passed {
            failed.lock().expect("no worker panics").push(binary);
        }
    }
}

fn next(waiting: &Mutex<VecDeque<Binary>>) -> Option<Binary> {
    waiting.lock().expect("no worker panics").pop_front()
}

fn tell(binary: &Binary, ran: &Ran) {
    let (name, took) =
        (format!("{} {}", binary.package, binary.selection()), ran.took.as_secs_f64());
    if ran.passed {
        println!("{took:>7.1} s  {name}: {}", ran.count());
    } else {
        println!("{took:>7.1} s  {name}: FAILED, {}\n{}", ran.end, ran.said);
    }
}
