//! Unknown names: each command that takes a name reports it, and does nothing.

use serde_json::json;
use tidelock::prelude::*;

use crate::harness::{Shop, append, block, mail, said};

on_files_and_postgres!(an_unknown_name_is_an_error, a_pattern_without_matches_is_not_an_error,);

/// A store with one of everything that can be named.
fn stock(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!("north"), json!("poison")]).await;
        mail(&store, 2).await;
        block(&*store, "post", "a", "no address").await;
        let tidelock = Tidelock::over(store);
        tidelock.start("checkout", "checkout-1", &json!(7)).version(1).await.unwrap();
    });
}

/// Each command with an unknown name, and its message.
const NAMES: &[(&[&str], &str)] = &[
    (&["unblock", "--reaction", "mial"], "there is no reaction \"mial\"; did you mean \"mail\"?"),
    (&["unblock", "--reaction", "mail", "--target", "order-9"], "there is no target \"order-9\""),
    (&["unblock", "--target", "order-9"], "there is no target \"order-9\""),
    (&["unblock", "--reaction", "mail", "--lane", "slow"], "there is nothing in lane \"slow\""),
    (&["unblock", "--queue", "pst"], "there is no item in queue \"pst\""),
    (&["unblock", "--queue", "post", "--key", "b"], "there is no item \"b\" in queue \"post\""),
    (&["unblock", "--queue", "*", "--key", "nope"], "there is no item \"nope\""),
    (&["unblock", "--queue", "post", "--lane", "slow"], "there is nothing in lane \"slow\""),
    (&["unblock", "--queue", "pst", "--dry-run"], "there is no item in queue \"pst\""),
    (&["unblock", "--reaction", "mial", "--dry-run"], "there is no reaction \"mial\""),
    (&["reset", "--reaction", "mial"], "there is no reaction \"mial\""),
    (&["reset", "--queue", "pst", "-y"], "there is no item in queue \"pst\""),
    (&["reset", "--queue", "pst", "--dry-run"], "there is no item in queue \"pst\""),
    (&["defer", "5m", "--reaction", "mial"], "there is no reaction \"mial\""),
    (&["defer", "5m", "--queue", "post", "--key", "b"], "there is no item \"b\""),
    (&["defer", "5m", "--queue", "pst", "--dry-run"], "there is no item in queue \"pst\""),
    (&["prioritize", "5", "--reaction", "mial"], "there is no reaction \"mial\""),
    (&["prioritize", "5", "--queue", "pst"], "there is no item in queue \"pst\""),
    (&["prioritize", "5", "--queue", "pst", "--dry-run"], "there is no item in queue \"pst\""),
    (&["reroute", "mial", "--from", "now", "-y"], "\"mial\""),
    (&["reroute", "mial", "--from", "now", "--dry-run"], "\"mial\""),
    (&["signal", "nope", "approved"], "run \"nope\""),
    (&["cancel", "nope"], "run \"nope\""),
    (&["cancel", "nope", "--terminate", "-y"], "run \"nope\""),
    (&["cancel", "nope", "--terminate", "--dry-run"], "run \"nope\""),
    (&["retry", "nope"], "run \"nope\""),
    (&["resume", "nope"], "run \"nope\""),
    (&["resolve", "nope", "pay", "--rerun"], "run \"nope\""),
    (&["discard", "--queue", "pst", "--reason", "x", "-y"], "there is no item in queue \"pst\""),
    (
        &["discard", "--queue", "pst", "--reason", "x", "--dry-run"],
        "there is no item in queue \"pst\"",
    ),
    (&["pause", "--reaction", "mial"], "there is no reaction \"mial\"; did you mean \"mail\"?"),
    (&["pause", "--workflow", "chekcout"], "there is no workflow \"chekcout\""),
    (&["resume", "--queue", "pst"], "there is no item in queue \"pst\""),
    (&["resume", "--reaction", "mial"], "there is no reaction \"mial\"; did you mean \"mail\"?"),
    (&["resume", "--workflow", "chekcout"], "there is no workflow \"chekcout\""),
    (&["schedules", "nope"], "schedule \"nope\""),
    (&["schedules", "nope", "--pause"], "schedule \"nope\""),
    (&["schedules", "nope", "--resume"], "schedule \"nope\""),
    (&["schedules", "nope", "--trigger"], "schedule \"nope\""),
    (&["schedules", "nope", "--delete", "-y"], "schedule \"nope\""),
    (&["resolve", "checkout-1", "nope", "--rerun"], "\"nope\""),
    (&["release", "lock/nope"], "\"lock/nope\""),
    (&["close", "nope", "--discard", "-y"], "stream \"nope\""),
    (&["close", "nope", "--discard", "--dry-run"], "stream \"nope\""),
    (&["close", "order-1", "--discard", "--ignore", "mial", "-y"], "there is no reaction \"mial\""),
    (&["events", "nope"], "stream \"nope\""),
    (&["erase", "nope", "-y"], "subject \"nope\""),
    (&["erase", "nope", "--dry-run"], "subject \"nope\""),
    (&["runs", "nope"], "run \"nope\""),
    (&["rows", "nope"], "\"nope\""),
    (&["rebuild", "nope", "-y"], "\"nope\""),
    (
        &["skip", "--reaction", "mial", "--target", "order-1", "--reason", "x", "-y"],
        "there is no reaction \"mial\"",
    ),
    (&["skip", "--reaction", "mail", "--target", "nope", "--reason", "x", "-y"], "\"nope\""),
];

/// Commands that take no name, or that list matches.
const NAMELESS: &[&str] = &[
    "backup",
    "bench",
    "claims",
    "completions",
    "demo",
    "doctor",
    "export",
    "import",
    "jobs",
    "leases",
    "migrate",
    "projections",
    "reactions",
    "scopes",
    "serve",
    "streams",
    "stress",
];

/// CMD-10.
fn an_unknown_name_is_an_error(shop: &Shop) {
    stock(shop);
    let all = |shop: &Shop| -> Vec<String> {
        [&["leases"][..], &["reactions"], &["runs"], &["events", "--all"]]
            .map(|args| shop.ok(args))
            .to_vec()
    };
    let before = all(shop);
    for (args, says) in NAMES {
        let refused = shop.run(args);
        assert_eq!((refused.code, refused.out.as_str()), (4, ""), "{args:?}: {refused:?}");
        assert!(
            refused.err.contains(says) && refused.err.contains("  try: "),
            "{args:?}: {refused:?}"
        );
    }
    // Ages are shown in seconds, so the lines are compared without them.
    let names = |shown: &[String]| -> Vec<usize> {
        shown.iter().map(|text| text.lines().count()).collect()
    };
    assert_eq!(names(&all(shop)), names(&before), "nothing was done");
}

/// CMD-10. That nothing is blocked is not an error either.
fn a_pattern_without_matches_is_not_an_error(shop: &Shop) {
    stock(shop);
    for (args, says) in [
        (&["unblock", "--reaction", "mi*"][..], "unblocked: 0 of 0 targets\n"),
        (&["defer", "5m", "--queue", "ps?"], "deferred: 0 of 0 items\n"),
        (&["prioritize", "5", "--source", "invoice-"], "prioritized: 0 of 0 targets\n"),
        (&["unblock", "--reaction", "tour"], "unblocked: 0 of 0 targets\n"),
    ] {
        assert_eq!(shop.ok(args), says, "{args:?}");
    }
}

/// CMD-10. A new command has to be added to one of the lists.
#[test]
fn every_command_is_tested_with_an_unknown_name() {
    let help = said(crate::harness::bare(&["--help"])).out;
    let listed = help
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let mut commands: Vec<_> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    commands.retain(|command| *command != "help");
    commands.sort_unstable();
    let mut tried: Vec<_> =
        NAMES.iter().map(|(args, _)| args[0]).chain(NAMELESS.iter().copied()).collect();
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(tried, commands);
}
