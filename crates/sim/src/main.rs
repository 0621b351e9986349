//! The command `tidelock-sim`.

use std::process::ExitCode;
use std::time::Instant;

use tidelock_sim::simulator::{Plan, Profile, simulate};

fn main() -> ExitCode {
    let profile = Profile::storms();
    let seeds = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1);
    let from = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(1u64);
    let mut bad = 0;
    let began = Instant::now();
    let mut simulated = 0.0;
    for seed in from..from + seeds {
        let report = simulate(&Plan::of(seed, &profile));
        let again = simulate(&Plan::of(seed, &profile));
        simulated += report.process_seconds;
        println!("seed {seed}: {:x} {:x} steps {} ops {} violations {:#?}", report.hash, again.hash, report.steps, report.history.operations.len(), report.violations);
        bad += usize::from(!report.violations.is_empty());
    }
    println!("{bad} bad; {:.0} process-seconds a second", simulated * 2.0 / began.elapsed().as_secs_f64());
    if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
