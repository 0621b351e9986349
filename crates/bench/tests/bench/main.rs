//! The `tidelock-bench` binary, run as people and programs run it.

mod jobs;
mod reactions;
mod runs;
mod store;
mod workloads;

use std::process::{Command, Output};

use serde_json::Value;
use tidelock_test_postgres::Server;

fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidelock-bench"));
    command.args(args).output().expect("the binary was built with this test")
}

/// The lines of a run that succeeds.
fn lines(args: &[&str]) -> Vec<Value> {
    let output = bench(&[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn number(line: &Value, field: &str) -> f64 {
    line[field].as_f64().unwrap_or_else(|| panic!("{field} is no number in {line}"))
}

fn schemas(server: &Server) -> String {
    server.run_sql("postgres", "SELECT nspname FROM pg_namespace ORDER BY 1").expect("schemas")
}
