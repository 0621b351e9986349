//! Positive controls from end to end (schedule 99): real workers on a store that breaks one promise
//! now and then, and a run that must notice.

use std::process::Command;

/// So many commits that each flaw shows, on a machine of any speed.
const ENOUGH: [&str; 2] = ["--min-commits", "500"];
/// For a flaw that keeps its scenario below its minimums: no late commit is refused, or no effect
/// repeated.
const BRIEFLY: [&str; 2] = ["--patience", "1"];
/// A brief run on a busy machine may end before the flaw shows; this many runs do not.
const RUNS: usize = 10;

/// Asserts that one of these runs reports this finding.
fn assert_found(scenario: &str, flaw: &str, end: [&str; 2], expected: &str) {
    assert_all_found(scenario, flaw, end, &[expected]);
}

/// Asserts that one of these runs reports all of these findings.
fn assert_all_found(scenario: &str, flaw: &str, end: [&str; 2], expected: &[&str]) {
    let mut said = String::new();
    for _ in 0..RUNS {
        said = findings(scenario, flaw, end);
        if expected.iter().all(|expected| said.contains(expected)) {
            return;
        }
    }
    panic!("{RUNS} runs without {expected:?}; the last said:\n{said}");
}

/// The output of a run on a store with this flaw.
fn findings(scenario: &str, flaw: &str, end: [&str; 2]) -> String {
    // The journals of a run with findings are kept; these are not needed.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = Command::new(env!("CARGO_BIN_EXE_tidelock-stress"))
        .args([scenario, "--store", "sqlite:", "--seconds", "1", "--workers", "2", "--flaw", flaw])
        .args(end)
        .env("TMPDIR", folder.path())
        .output()
        .expect("the binary was built with this test");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_store_that_forgets_acknowledged_commits_is_detected() {
    assert_found("many-streams", "forgets", ENOUGH, "FOUND lost commit: commit ");
}

#[test]
fn a_store_that_writes_twice_is_detected() {
    let expected = [
        "FOUND unexplained event: event ",
        "FOUND anomaly in the history: not linearizable: stream ",
    ];
    assert_all_found("many-streams", "doubles", ENOUGH, &expected);
}

#[test]
fn a_store_that_grants_a_lease_to_two_is_detected() {
    let expected = [
        "FOUND two holders at once: consumer-",
        "FOUND anomaly in the history: number reused: fence ",
    ];
    assert_all_found("churn", "shares", ENOUGH, &expected);
}

#[test]
fn a_store_that_lets_a_lost_lease_write_is_detected() {
    let expected = [
        "FOUND drained twice: events of item ",
        "FOUND anomaly in the history: not linearizable: right ",
    ];
    assert_all_found("stopped", "overlooks", BRIEFLY, &expected);
}

#[test]
fn a_handler_that_writes_past_the_commit_of_its_ack_is_detected() {
    assert_found("reactions", "strays", ENOUGH, "FOUND handled twice: event ");
}

#[test]
fn a_step_in_the_store_that_writes_past_the_commit_of_its_record_is_detected() {
    assert_found("runs", "strays", BRIEFLY, "FOUND wrong total: run ");
}

#[test]
fn a_store_that_lets_two_hold_a_lock_is_detected() {
    assert_found("claims", "blind", BRIEFLY, "FOUND two holders at once: lock ");
}

#[test]
fn a_store_that_overwrites_what_others_changed_in_a_scope_is_detected() {
    assert_found("scopes", "blind", BRIEFLY, "FOUND lost commit: board ");
}

#[test]
fn a_store_that_books_twice_while_books_are_closed_is_detected() {
    assert_found("closing", "doubles", BRIEFLY, "FOUND doubled event: booking ");
}

#[test]
fn a_store_that_skips_in_the_feed_is_detected() {
    assert_found("many-streams", "skips", ENOUGH, "FOUND skipped in the feed: follower-0 saw ");
}
