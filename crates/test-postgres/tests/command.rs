//! The command `tidelock-test-postgres`, and that no server outlives its owner.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Prints the folder of the server's data, and waits for the end of its input.
const SAY_WHERE_AND_WAIT: &str =
    r#"data=$(psql -XAtc "SHOW data_directory" "$TIDELOCK_TEST_POSTGRES"); echo "$data"; exec cat"#;

#[test]
fn the_command_finds_the_server_and_gives_its_own_exit_code() {
    let output = beside_a_server(r#"psql -XAtc "SELECT 'seen'" "$TIDELOCK_TEST_POSTGRES"; exit 7"#)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "seen\n");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn no_command_is_a_mistake_that_is_explained() {
    let output = Command::new(env!("CARGO_BIN_EXE_tidelock-test-postgres")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("COMMAND"));
}

#[test]
fn a_termination_is_passed_on_and_the_server_is_stopped() {
    let mut owner = beside_a_server(SAY_WHERE_AND_WAIT).spawn().unwrap();
    let data = line_of(&mut owner);
    // Waiting would close it, and the command would end by itself.
    let _input = owner.stdin.take();
    signal(&owner, Signal::SIGTERM);
    assert_eq!(owner.wait().unwrap().code(), Some(128 + Signal::SIGTERM as i32));
    assert!(!Path::new(&data).exists());
}

#[test]
fn a_server_does_not_outlive_an_owner_that_is_killed() {
    let mut owner = beside_a_server(SAY_WHERE_AND_WAIT).spawn().unwrap();
    let data = line_of(&mut owner);
    assert!(Path::new(&data).exists());
    signal(&owner, Signal::SIGKILL);
    owner.wait().unwrap();
    // The folder is removed last, after every process in it has ended.
    wait_until(|| !Path::new(&data).exists());
}

fn beside_a_server(script: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock-test-postgres"));
    command.args(["sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

fn line_of(owner: &mut Child) -> String {
    let mut line = String::new();
    let output = owner.stdout.as_mut().expect("asked for when it was started");
    BufReader::new(output).read_line(&mut line).expect("a line of text");
    line.trim_end().to_owned()
}

fn signal(owner: &Child, signal: Signal) {
    let process = i32::try_from(owner.id()).expect("the kernel's own type for it is signed");
    kill(Pid::from_raw(process), signal).expect("it runs");
}

/// Polls until the fact holds.
fn wait_until(fact: impl Fn() -> bool) {
    let begun = Instant::now();
    while !fact() {
        assert!(begun.elapsed() < Duration::from_secs(60), "timed out");
        thread::yield_now();
    }
}
