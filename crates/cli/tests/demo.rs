//! The `tidelock` binary, run as people run it: its output, its messages, and its exit codes.

use std::process::{Command, Output, Stdio};

fn tidelock(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock"));
    command.args(args).env_remove("NO_COLOR");
    command
}

fn run(args: &[&str]) -> Output {
    tidelock(args).output().expect("the binary was built with this test")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_tells_the_story(output: &Output) {
    let told = stdout(output);
    assert_eq!(output.status.code(), Some(0), "{told}{}", stderr(output));
    assert_eq!(stderr(output), "");
    for line in [
        "refused, stream \"order-7\": expected version 1, found version 2",
        "worker slow leases it for 150 ms, gets fence 1, and stalls",
        "lease with fence 1 lost, held by \"quick\" with fence 2",
        "granted: 18,",
        "refused: 46, record \"boat-3/taken\": 18 +1 goes past the bound of at most 18",
        "✓ all three are there",
        "✓ nothing of it is there",
        "✓ 5 were sold, and 0 are left",
        "tried 3 times, then blocked: an order without an address",
        "✓ it continued where it had stopped",
        "✓ 10 clients have the same receipt",
        "granted: 18, refused as over quota: 82",
        "✓ a point that is refunded twice is returned once",
        "✓ the card was charged once",
        "order-9:pack",
        "all 9 promises were kept",
    ] {
        assert!(told.contains(line), "{line:?} is not in:\n{told}");
    }
    assert!(!told.contains('\x1b'), "no color without a terminal:\n{told}");
}

#[test]
fn the_demo_tells_its_story_on_a_file_and_removes_it() {
    let output = run(&["demo", "--once"]);
    assert_tells_the_story(&output);
    let told = stdout(&output);
    let path = told.lines().next().and_then(|line| line.strip_prefix("the store is sqlite:"));
    let path = path.unwrap_or_else(|| panic!("the first line names the file:\n{told}"));
    assert!(path.ends_with("demo.db"), "{path}");
    let folder = std::path::Path::new(path).parent().expect("the file is in its own folder");
    assert!(!folder.exists(), "{} is still there", folder.display());
}

#[test]
fn the_demo_runs_twice_on_an_existing_store_and_leaves_it_healthy() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("shop.db");
    let url = format!("sqlite:{}", path.display());
    for _ in 0..2 {
        let output = run(&["demo", "--once", "--store", &url]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("what was written stays, under names with demo-"));
    }
    assert!(path.exists());
    let held = run(&["leases", "--store", &url, "--state", "held"]);
    assert_eq!(stdout(&held), "", "no lease is left behind");
    let exam = run(&["doctor", "--stuck-after", "0s", "--store", &url]);
    assert_eq!(exam.status.code(), Some(0), "{}", stdout(&exam));
    assert!(stdout(&exam).ends_with("nothing is wrong\n"), "{}", stdout(&exam));
}

#[test]
fn the_demo_plays_on_memory() {
    let output = run(&["demo", "--once", "--store", "memory:"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("all 9 promises were kept"));
}

#[test]
fn an_invalid_url_is_refused_with_a_hint() {
    let output = run(&["demo", "--once", "--store", "mongodb:shop"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stdout(&output), "");
    let said = stderr(&output);
    assert!(said.contains("error: cannot open store \"mongodb:shop\": "), "{said}");
    assert!(said.contains("try: give sqlite:PATH or postgres://USER@HOST/DATABASE"), "{said}");
}

#[test]
fn a_store_that_cannot_be_opened_is_named_and_is_a_failure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notes.txt");
    std::fs::write(&path, "not the tables you are looking for\n".repeat(100)).expect("a file");
    let output = run(&["demo", "--once", "--store", &format!("sqlite:{}", path.display())]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("error: cannot open store \"sqlite:") && said.contains("notes.txt"),
        "{said}"
    );
    assert!(said.contains("  try: another store"), "{said}");
}

#[test]
fn an_unknown_command_is_refused_with_the_usage() {
    let output = run(&["dmeo"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(said.contains("unrecognized subcommand 'dmeo'"), "{said}");
    assert!(said.contains("Usage: tidelock"), "{said}");
}

#[test]
fn a_closed_pipe_ends_the_demo_quietly() {
    let mut demo = tidelock(&["demo", "--once"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary was built with this test");
    drop(demo.stdout.take());
    let output = demo.wait_with_output().expect("the demo ends");
    assert_eq!(stderr(&output), "");
    assert_eq!(output.status.code(), Some(0));
}
