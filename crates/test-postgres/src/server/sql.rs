//! SQL on a test server, through `psql`.
//!
//! Enough to prepare and to inspect a server. Tests that need rows use a driver.

use std::io::{self, Write};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use crate::failure::Failure;
use crate::polling::wait_for;
use crate::programs::judge;
use crate::server::Server;

impl Server {
    /// Runs statements one after the other as the superuser, up to the first failure, and returns
    /// their output: one line per row, with `|` between the columns.
    pub fn run_sql(&self, database: &str, sql: &str) -> Result<String, Failure> {
        let psql = self.psql(database).spawn().map_err(Failure::to("start psql"))?;
        let output = converse(psql, sql).map_err(Failure::to("wait for psql"))?;
        judge("psql", &output)
    }

    /// Creates an empty database.
    pub fn create_database(&self, name: &str) -> Result<(), Failure> {
        self.run_sql("postgres", &format!("CREATE DATABASE {}", identifier(name))).map(drop)
    }

    /// Changes a setting permanently, and waits until it is in force.
    ///
    /// Behavior: new sessions have it from the start; an open one applies it before its next
    /// statement. A setting that needs a restart is a failure, though the next restart will apply
    /// it.
    pub fn set(&self, setting: &str, value: &str) -> Result<(), Failure> {
        let before = self.run_sql("postgres", "SELECT clock_timestamp()")?;
        let change = format!("ALTER SYSTEM SET {} = {}", identifier(setting), literal(value));
        self.run_sql("postgres", &format!("{change};\nSELECT pg_reload_conf()"))?;
        self.wait_until_reloaded_after(&before)?;
        self.check_that_it_needs_no_restart(setting)
    }

    fn wait_until_reloaded_after(&self, time: &str) -> Result<(), Failure> {
        let question = format!("SELECT pg_conf_load_time() > {}", literal(time));
        wait_for("the settings to be loaded", || {
            Ok((self.run_sql("postgres", &question)? == "t").then_some(()))
        })?;
        // A new session has read the settings, so every process has been notified. The checkpointer
        // decides for all whether commits wait for a standby, and it reads its settings before it
        // accepts a request.
        self.run_sql("postgres", "CHECKPOINT").map(drop)
    }

    fn check_that_it_needs_no_restart(&self, setting: &str) -> Result<(), Failure> {
        let question = format!(
            "SELECT pending_restart FROM pg_settings WHERE name = lower({})",
            literal(setting)
        );
        match self.run_sql("postgres", &question)?.as_str() {
            "t" => Err(Failure::new(format!("the setting {setting} takes a restart"))),
            _ => Ok(()),
        }
    }

    fn psql(&self, database: &str) -> Command {
        let mut psql = self.programs.command("psql");
        psql.args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-d", database]);
        psql.arg("-h").arg(self.socket_folder()).args(["-p", &self.port().to_string()]);
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        psql
    }
}

/// Through standard input, where every statement is its own transaction; reads while it writes, so
/// that neither side blocks on a full pipe.
pub(crate) fn converse(mut psql: Child, sql: &str) -> io::Result<Output> {
    let mut input = psql.stdin.take().expect("asked for when psql was started");
    thread::scope(|threads| {
        // A psql that exits early reports the reason itself.
        threads.spawn(move || input.write_all(sql.as_bytes()));
        psql.wait_with_output()
    })
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
