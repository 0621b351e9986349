//! Every scenario, short, on each store, through the real binary.

use std::process::{Command, Output};

use tidelock_test_postgres::Server;

fn stress(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock-stress"));
    command.args(args);
    command
}

fn run(mut command: Command) -> Output {
    command.output().expect("the binary was built with this test")
}

/// The output of a run that must be clean.
fn clean(args: &[&str]) -> String {
    let output = run(stress(args));
    let (said, seed) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{said}{seed}");
    println!("{seed}{said}");
    said.into_owned()
}

fn refusal(args: &[&str]) -> String {
    let output = run(stress(args));
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Schedules 20, 23, 35, 36, 58, 67, 88 and 99.
#[test]
fn nothing_is_lost_or_done_twice_on_sqlite() {
    let said = clean(&["all", "--store", "sqlite:", "--seconds", "3"]);
    for name in [
        "many-streams",
        "hot-stream",
        "churn",
        "killed",
        "stopped",
        "reactions",
        "runs",
        "scopes",
        "claims",
        "closing",
    ] {
        let line = said.lines().find(|line| line.starts_with(name));
        assert!(line.is_some_and(|line| !line.contains("skipped")), "{said}");
    }
    assert!(said.contains("server-restart  skipped: a file has no server to restart"), "{said}");
    assert!(said.contains("bad-network     skipped: there is no network"), "{said}");
}

/// Schedules 10, 12, 20, 23, 35, 36, 58, 67, 88 and 99.
#[test]
fn nothing_is_lost_or_done_twice_on_postgresql() {
    let said = clean(&["all", "--store", "postgres:", "--seconds", "3"]);
    assert!(!said.contains("skipped"), "{said}");
}

#[test]
fn a_server_given_by_its_url_is_put_behind_a_proxy_and_not_restarted() {
    let server = Server::start().expect("a server");
    let said =
        clean(&["bad-network", "server-restart", "--store", &server.url(), "--seconds", "2"]);
    assert!(said.contains("server-restart  skipped: the server was given by its URL"), "{said}");
    assert!(said.contains(" replies swallowed"), "{said}");
}

/// More than fits into its second: a slow machine takes longer, and proves as much.
#[test]
fn a_scenario_continues_until_its_minimums_are_reached() {
    clean(&["many-streams", "--store", "sqlite:", "--seconds", "1", "--min-commits", "2500"]);
}

#[test]
fn a_run_below_its_minimums_fails() {
    // The journals of a run with findings are kept; these are not needed.
    let folder = tempfile::tempdir().expect("a temporary folder");
    let short = ["hot-stream", "--store", "sqlite:", "--seconds", "1", "--patience", "2"];
    let mut command = stress(&short);
    command.args(["--min-commits", "1000000000"]);
    command.env("TMPDIR", folder.path());
    let output = run(command);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("FOUND too little happened: commits acknowledged: "), "{said}");
}

#[test]
fn the_seed_and_the_replay_command_are_printed() {
    let output =
        run(stress(&["hot-stream", "--store", "sqlite:", "--seconds", "1", "--seed", "42"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("with seed 42"), "{said}");
    assert!(
        said.contains(
            "tidelock-stress hot-stream --store sqlite: --seconds 1 --workers 4 --seed 42"
        ),
        "{said}"
    );
}

#[test]
fn an_unknown_scenario_is_refused_with_the_known_ones() {
    assert!(
        refusal(&["all", "--store", "memory:"]).contains("try: sqlite:, sqlite:PATH, postgres:")
    );
    assert!(
        refusal(&["kiled", "--store", "sqlite:"])
            .contains("many-streams, hot-stream, churn, killed")
    );
    assert!(refusal(&["all"]).contains("--store"));
    assert!(
        refusal(&["server-restart", "--store", "sqlite:"])
            .contains("a file has no server to restart")
    );
}
