//! `tidelock-test-run`, with a fake cargo that builds nothing and names scripts as its binaries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const PASSES: &str =
    "echo 'running 3 tests'; echo 'test result: ok. 3 passed; 0 failed; 0 ignored'";

/// A workspace of one package, whose test binaries are scripts.
struct Workspace {
    folder: TempDir,
    said_by_cargo: String,
}

impl Workspace {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().expect("a temporary folder"),
            said_by_cargo: String::new(),
        }
    }

    /// Adds a test of this name that runs this script, and records that it ran.
    fn test(mut self, name: &str, does: &str) -> Self {
        let executable =
            self.script(name, &format!("touch '{}'\n{does}", self.trace(name).display()));
        self.said_by_cargo += &self.artifact(name, Some(&executable));
        self
    }

    /// A cargo message about a built artifact.
    fn artifact(&self, name: &str, executable: Option<&Path>) -> String {
        let line = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": self.folder.path().join("Cargo.toml"),
            "target": { "name": name, "kind": ["test"] },
            "profile": { "test": true },
            "executable": executable,
        });
        format!("{line}\n")
    }

    /// Runs the command with a fake cargo that prints these messages and exits with this code.
    fn run(&self, cargo_ends_with: u8) -> Output {
        let words = self.folder.path().join("words");
        fs::write(&words, &self.said_by_cargo).expect("the folder is ours");
        let cargo =
            self.script("cargo", &format!("cat '{}'\nexit {cargo_ends_with}", words.display()));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock-test-run"));
        command.env("CARGO", cargo).output().expect("the binary was built with this test")
    }

    /// Written by another process: a file that this process had open for writing may still be open
    /// in another test's child, and cannot be executed then.
    fn script(&self, name: &str, does: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let text = path.with_extension("text");
        fs::write(&text, format!("#!/bin/sh\n{does}\n")).expect("the folder is ours");
        let installed = Command::new("install").args(["-m", "755"]).args([&text, &path]).status();
        assert!(installed.is_ok_and(|status| status.success()), "{}", path.display());
        path
    }

    fn trace(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.ran"))
    }

    fn ran(&self, name: &str) -> bool {
        self.trace(name).exists()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn all_binaries_are_run_and_counted() {
    let workspace = Workspace::new().test("one", PASSES).test("two", PASSES).test("three", PASSES);
    let output = workspace.run(0);
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stdout);
    for name in ["one", "two", "three"] {
        assert!(workspace.ran(name));
        assert!(said.contains(&format!("--test {name}: 3 passed\n")), "{said}");
    }
    assert!(!said.contains("running 3 tests"), "what passed is not shown: {said}");
}

#[test]
fn one_that_fails_is_shown_and_the_others_still_run() {
    let fails = "echo 'left is not right'; echo 'and this is why' >&2; exit 101";
    let workspace = Workspace::new().test("bad", fails).test("one", PASSES).test("two", PASSES);
    let output = workspace.run(0);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(workspace.ran("one") && workspace.ran("two"));
    let said = text(&output.stdout);
    assert!(
        said.contains("--test bad: FAILED, exit status: 101\nleft is not right\nand this is why\n"),
        "{said}"
    );
    let complaint = text(&output.stderr);
    assert!(
        complaint.contains("failed: cargo test -p ") && complaint.contains(" --test bad\n"),
        "{complaint}"
    );
    assert!(!complaint.contains("--test one"), "{complaint}");
}

#[test]
fn one_that_is_killed_has_failed_whatever_it_said_before() {
    let workspace =
        Workspace::new().test("killed", &format!("{PASSES}; kill -9 $$")).test("one", PASSES);
    let output = workspace.run(0);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(workspace.ran("one"));
    let said = text(&output.stdout);
    assert!(
        said.contains("--test killed: FAILED, signal: 9 (SIGKILL)\nrunning 3 tests\n"),
        "{said}"
    );
}

#[test]
fn one_that_does_not_start_has_failed() {
    let mut workspace = Workspace::new().test("one", PASSES);
    let missing = workspace.folder.path().join("missing");
    workspace.said_by_cargo += &workspace.artifact("missing", Some(&missing));
    let output = workspace.run(0);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(workspace.ran("one"));
    assert!(
        text(&output.stdout).contains("--test missing: FAILED, it does not start: "),
        "{output:?}"
    );
}

/// A process that a test has left behind may hold its output open indefinitely.
#[test]
fn a_process_left_behind_by_a_test_is_not_waited_for() {
    let leaves = format!("{PASSES}; sleep 600 & echo $! > left");
    let workspace = Workspace::new().test("leaves", &leaves);
    let output = workspace.run(0);
    let left = fs::read_to_string(workspace.folder.path().join("left")).unwrap();
    let ended = Command::new("kill").arg(left.trim()).status().unwrap();
    assert!(output.status.success() && ended.success(), "{output:?}");
}

#[test]
fn tests_that_do_not_compile_or_are_not_there_are_a_failure() {
    let broken = Workspace::new().test("one", PASSES);
    let output = broken.run(101);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stderr).contains("the tests do not compile") && !broken.ran("one"),
        "{output:?}"
    );

    let mut empty = Workspace::new();
    empty.said_by_cargo =
        empty.artifact("a library", None) + "{\"reason\":\"build-finished\",\"success\":true}\n";
    let output = empty.run(0);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text(&output.stderr).contains("cargo names no tests"), "{output:?}");
}
