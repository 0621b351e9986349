//! PostgreSQL's own load generator, as a second baseline of the plainest workload.
//!
//! It works for whole seconds only, and so runs once a full second is due. Connecting is not
//! counted. (It could be given a number of transactions instead; but then it waits for its slowest
//! client at the end, while all others are idle.)

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use tidelock::store::async_trait;
use tokio::task::block_in_place;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::failure::Failure;
use crate::fixture::StoreFixture;
use crate::measure::{Baseline, Side, Slice};
use crate::rows;

const PROGRAM: &str = "pgbench";

/// Where Debian keeps it, in one folder per major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The longest run, if it makes no progress.
const LONGEST: Duration = Duration::from_secs(64);

/// A row in each transaction. Every run of the program is given new streams.
const SCRIPT: &str = "\\set version :version + 1
INSERT INTO events (stream, version, type, payload, metadata)
    VALUES ('pgbench-' || :run::text || '-' || :client_id::text, :version, :type, :payload, '{}');
";

/// Whether it is installed.
pub(crate) fn has_pgbench() -> bool {
    program().is_some()
}

/// One row in each transaction of this many clients; none if the program is not installed.
pub(super) fn inserts(schemas: &StoreFixture, clients: usize) -> Result<Option<Baseline>, Failure> {
    let Some(program) = program() else { return Ok(None) };
    let folder = tempfile::Builder::new().prefix("tidelock-bench-").tempdir()?;
    fs::write(folder.path().join("insert.sql"), SCRIPT)?;
    let config = schemas.database.config(&[&schemas.baseline]);
    let side = Pgbench {
        program,
        config,
        clients,
        folder,
        runs: 0,
        asked: Duration::ZERO,
        worked: Duration::ZERO,
    };
    Ok(Some(Baseline { name: PROGRAM, side: Box::new(side) }))
}

struct Pgbench {
    program: PathBuf,
    config: Config,
    clients: usize,
    /// Contains the script, and the times of each run while they are read.
    folder: TempDir,
    runs: usize,
    /// The time that it should have worked so far.
    asked: Duration,
    /// The time that it has worked.
    worked: Duration,
}

#[async_trait]
impl Side for Pgbench {
    async fn run_slice(&mut self, slice: Duration) -> Result<Slice, Failure> {
        self.asked += slice;
        if self.asked <= self.worked {
            return Ok(Slice::default());
        }
        let mut time = Duration::from_secs((self.asked - self.worked).as_secs().max(1));
        loop {
            self.worked += time;
            if let Some(run_slice) = block_in_place(|| self.run(time))? {
                return Ok(run_slice);
            }
            if time >= LONGEST {
                return Err(Failure::Answer(format!("pgbench: got nothing done in {time:?}")));
            }
            time *= 2;
        }
    }

    /// Every run starts from scratch: there is nothing to warm up.
    async fn warm_up(&mut self, _: Duration) -> Result<(), Failure> {
        Ok(())
    }
}

impl Pgbench {
    /// None if it only connected: that is not counted, but its time runs from the start.
    fn run(&mut self, time: Duration) -> Result<Option<Slice>, Failure> {
        self.runs += 1;
        let output = self.command(time).output()?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::Answer(format!("pgbench: {}", complaint.trim())));
        }
        let Some(rate) = rate(&said) else { return Ok(None) };
        let times = self.take_times()?;
        let elapsed = Duration::from_secs_f64(times.len() as f64 / rate);
        Ok(Some(Slice { ops: times.len() as u64, elapsed, times }))
    }

    /// The address goes through the environment, which other users cannot read, because it may
    /// contain a password.
    fn command(&self, time: Duration) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(self.folder.path()).envs(environment(&self.config));
        command.args([
            "--no-vacuum",
            "--protocol=prepared",
            "--file=insert.sql",
            "--log",
            "--log-prefix=times",
        ]);
        let mut give = |name: &str, value: String| {
            command.arg(format!("--{name}={value}"));
        };
        give("client", self.clients.to_string());
        give("jobs", self.clients.min(crate::WORKERS).to_string());
        give("time", time.as_secs().to_string());
        give("define", format!("run={}", self.runs));
        give("define", "version=0".to_owned());
        give("define", format!("type={}", rows::EVENT_TYPE));
        give("define", format!("payload={}", rows::payload()));
        command
    }

    /// Reads and removes what was logged: a line for each transaction, whose third word is its
    /// time.
    fn take_times(&self) -> Result<Vec<Duration>, Failure> {
        let mut times = Vec::new();
        for file in fs::read_dir(self.folder.path())? {
            let path = file?.path();
            if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"times")) {
                times.extend(fs::read_to_string(&path)?.lines().filter_map(time));
                fs::remove_file(&path)?;
            }
        }
        Ok(times)
    }
}

fn environment(config: &Config) -> Vec<(&'static str, String)> {
    let host = config.get_hosts().first().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let settings = [
        ("PGHOST", host),
        ("PGPORT", config.get_ports().first().map(ToString::to_string)),
        ("PGUSER", config.get_user().map(str::to_owned)),
        ("PGDATABASE", config.get_dbname().or(config.get_user()).map(str::to_owned)),
        (
            "PGPASSWORD",
            config.get_password().map(|password| String::from_utf8_lossy(password).into_owned()),
        ),
        ("PGOPTIONS", config.get_options().map(str::to_owned)),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Transactions per second, without connecting: the last printed rate, in every version.
fn rate(said: &str) -> Option<f64> {
    let line = said.lines().rfind(|line| line.starts_with("tps = "))?;
    line.split(' ').nth(2)?.parse().ok()
}

fn time(line: &str) -> Option<Duration> {
    line.split(' ').nth(2)?.parse().ok().map(Duration::from_micros)
}

/// The newest that Debian's packages installed, or else the one on the `PATH`.
fn program() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let newest = versions
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, folder)| holds_it(folder))
        .max();
    let folder = newest.map(|(_, folder)| folder).or_else(on_the_path)?;
    Some(folder.join(PROGRAM))
}

fn on_the_path() -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find(|folder| holds_it(folder))
}

fn holds_it(folder: &Path) -> bool {
    folder.join(PROGRAM).is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_one_without_connecting() {
        let old = "tps = 85.2 (including connections establishing)\ntps = 90.5 (excluding connections establishing)";
        assert_eq!(rate(old), Some(90.5));
        assert_eq!(
            rate("latency average = 1 ms\ntps = 17000.25 (without initial connection time)\n"),
            Some(17000.25)
        );
        assert_eq!(rate("pgbench: error"), None);
    }

    #[test]
    fn the_time_of_a_transaction_is_the_third_word_of_its_line() {
        assert_eq!(time("31 7 1843 0 1700000000 123456"), Some(Duration::from_micros(1843)));
        assert_eq!(time("31 7"), None);
    }
}
