//! The simulator: it repeats itself, it finds nothing in the product, and it finds every kind of
//! defect.

use std::process::Command;
use std::time::{Duration, Instant};

use tidelock_sim::simulator::{
    Cut, Mutant, Plan, Profile, SHRINKING, command, quiet_panics, shrink, simulate, story,
};

/// Seeds that are always played, for each profile.
const FIXED: u64 = 3;

/// How long seeds are played that no test has played before.
const FRESH: Duration = Duration::from_secs(20);

/// Seeds that failed once, with their profile.
const REGRESSIONS: &[(&str, u64)] = &[
    // A commit of a run that came late was made twice.
    ("network", 938_785_653),
];

fn profiles() -> impl Iterator<Item = Profile> {
    Profile::NAMES.into_iter().filter_map(Profile::named)
}

fn assert_holds(plan: &Plan, profile: &Profile) {
    let report = simulate(plan);
    if !report.violations.is_empty() {
        let (cut, report) = shrink(plan, report, SHRINKING);
        panic!("{}\n{}", story(&report), command(&report, profile.name, &cut));
    }
}

#[test]
fn two_runs_of_one_seed_are_the_same() {
    quiet_panics();
    for profile in profiles() {
        let plan = Plan::of(FIXED + 1, &profile);
        let (one, other) = (simulate(&plan), simulate(&plan));
        assert_eq!((one.hash, one.steps), (other.hash, other.steps), "{profile:?}");
        assert!(one.history == other.history, "{profile:?}");
        assert_eq!(one.coverage, other.coverage, "{profile:?}");
    }
}

#[test]
fn another_seed_is_another_simulation() {
    let profile = Profile::storms();
    let hash = |seed| simulate(&Plan::of(seed, &profile)).hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn fixed_seeds_hold_every_promise() {
    quiet_panics();
    for profile in profiles() {
        for seed in 1..=FIXED {
            assert_holds(&Plan::of(seed, &profile), &profile);
        }
    }
}

#[test]
fn fresh_seeds_hold_every_promise() {
    quiet_panics();
    // Drawn before the first simulation, which decides what is drawn later.
    let first = u64::from(fastrand::u32(..));
    let began = Instant::now();
    let seeds = (first..).flat_map(|seed| profiles().map(move |profile| (seed, profile)));
    for (seed, profile) in seeds.take_while(|_| began.elapsed() < FRESH) {
        assert_holds(&Plan::of(seed, &profile), &profile);
    }
}

/// COMMIT-5. The command starts itself behind a disk whose power fails; as a control, a store that
/// flushes too late is found.
#[test]
fn what_was_acknowledged_survives_losses_of_power() {
    let play = |arguments: &[&str]| {
        let command = Command::new(env!("CARGO_BIN_EXE_tidelock-sim")).args(arguments).output();
        let played = command.expect("the command starts");
        let said = String::from_utf8_lossy(&played.stdout);
        assert!(played.status.success(), "{said}{}", String::from_utf8_lossy(&played.stderr));
    };
    play(&["--profile", "power", "--minutes", "0.2"]);
    play(&["mutants", "--only", "ForgetsFlushes", "--seeds", "40"]);
}

#[test]
fn seeds_that_failed_once_hold() {
    quiet_panics();
    for (profile, seed) in REGRESSIONS {
        let profile = Profile::named(profile).expect("it is one of the profiles");
        assert_holds(&Plan::of(*seed, &profile), &profile);
    }
}

#[test]
fn the_page_names_every_mutant() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/how-it-is-tested.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    for mutant in Mutant::ALL {
        let row = format!("\n| {mutant:?} | {} | ", mutant.what());
        assert!(page.contains(&row), "write the table again: the page has no {row:?}");
    }
}

#[test]
fn a_defect_is_found_shrunk_and_told() {
    quiet_panics();
    let profile = Profile::storms();
    let failing = (1..50).find_map(|seed| {
        let mutant = Some(Mutant::IgnoresRevisions);
        let plan = Plan { mutant, ..Plan::of(seed, &profile) };
        let report = simulate(&plan);
        (!report.violations.is_empty()).then_some((plan, report))
    });
    let (plan, report) = failing.expect("a store that checks no revision loses updates");
    let before = plan.size();
    let (cut, report) = shrink(&plan, report, 15);
    assert!(report.plan.size() < before, "{cut:?}");
    assert!(story(&report).contains("BROKEN"));
    let again = simulate(&plan.clone().cut(&cut));
    assert_eq!(again.hash, report.hash, "the shrunk plan replays");
    assert!(command(&report, profile.name, &cut).contains("--mutant IgnoresRevisions"));
    assert_ne!(cut, Cut::default());
}
