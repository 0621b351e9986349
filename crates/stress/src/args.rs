//! Command-line arguments.

use std::time::Duration;

use clap::Parser;

use crate::broken::Flaw;

/// Fault injection: real worker processes on one store, disturbed while they work, and an audit of
/// the result.
///
/// Exits with 0 if nothing was found and the minimums were reached, with 1 if something was found,
/// and with 2 for invalid usage.
#[derive(Debug, Parser)]
#[command(name = "tidelock-stress", version)]
pub(crate) struct Args {
    /// The scenarios: all, or some of many-streams, hot-stream, churn, killed, stopped, reactions,
    /// runs, scopes, claims, closing, server-restart, bad-network
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// sqlite: (a temporary file), sqlite:PATH, postgres: (a private server) or a postgres:// URL
    #[arg(long, value_name = "URL")]
    pub(crate) store: String,
    /// Minimum duration of each scenario in seconds; it continues until its minimums are reached
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// Maximum duration of a scenario in seconds, after which it ends even below its minimums
    /// [default: 60, or 20 times the seconds if that is more]
    #[arg(long, value_name = "N")]
    pub(crate) patience: Option<u64>,
    /// Repeat the scenarios until this many minutes have passed
    #[arg(long, value_name = "N")]
    pub(crate) minutes: Option<u64>,
    /// Number of worker processes, besides those that a scenario adds
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) workers: usize,
    /// Seed of an earlier run, to make the same choices again
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Minimum number of acknowledged commits in each scenario [default: 20 per second]
    #[arg(long, value_name = "N")]
    pub(crate) min_commits: Option<u64>,
    /// Put a store that breaks a promise under the workers, to check that it is found
    #[arg(long, hide = true, value_enum)]
    pub(crate) flaw: Option<Flaw>,
}

/// Seconds that the slowest machine needs for a short scenario, with a large margin.
const PATIENCE: u64 = 60;
/// How much slower than requested a long scenario may be.
const TIMES_SLOWER: u64 = 20;

impl Args {
    /// Minimum duration of a scenario.
    pub(crate) fn least(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// Maximum duration of a scenario below its minimums.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(
            self.patience.unwrap_or_else(|| PATIENCE.max(TIMES_SLOWER * self.seconds)),
        )
    }

    /// The command that makes the same choices again; a password has to be added by hand.
    pub(crate) fn replay(&self, seed: u64) -> String {
        let scenarios =
            if self.scenarios.is_empty() { "all".to_owned() } else { self.scenarios.join(" ") };
        let min_commits = self
            .min_commits
            .map_or(String::new(), |min_commits| format!(" --min-commits {min_commits}"));
        let patience =
            self.patience.map_or(String::new(), |patience| format!(" --patience {patience}"));
        let minutes = self.minutes.map_or(String::new(), |minutes| format!(" --minutes {minutes}"));
        format!(
            "tidelock-stress {scenarios} --store {} --seconds {}{patience}{minutes} --workers {}{min_commits} --seed {seed}",
            tidelock::redacted_url(&self.store),
            self.seconds,
            self.workers
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replay_command_asks_for_the_same_again() {
        let typed = "tidelock-stress killed churn --store sqlite: --seconds 5 --patience 9 --minutes 2 --workers 3 --min-commits 7";
        let args = Args::parse_from(typed.split(' '));
        assert_eq!(args.replay(42), format!("{typed} --seed 42"));
        assert_eq!(Args::parse_from(args.replay(42).split(' ')).seed, Some(42));
        let secret =
            Args::parse_from(["tidelock-stress", "--store", "postgres://me:secret@localhost/shop"]);
        assert!(
            secret.replay(1).contains(" --store postgres://me@localhost/shop "),
            "{}",
            secret.replay(1)
        );
        let all = Args::parse_from(["tidelock-stress", "--store", "sqlite:"]);
        assert_eq!(
            all.replay(1),
            "tidelock-stress all --store sqlite: --seconds 10 --workers 4 --seed 1"
        );
    }

    #[test]
    fn a_long_scenario_has_a_longer_maximum_duration() {
        let patience = |typed: &str| Args::parse_from(typed.split(' ')).patience().as_secs();
        assert_eq!(patience("tidelock-stress --store sqlite: --seconds 2"), 60);
        assert_eq!(patience("tidelock-stress --store sqlite: --seconds 10"), 200);
        assert_eq!(patience("tidelock-stress --store sqlite: --seconds 10 --patience 5"), 5);
    }
}
