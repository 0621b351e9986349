//! What can be typed, as types.

use std::time::Duration;

use clap::Parser;

use crate::broken::Flaw;

/// Real worker processes on one store, injured while they work, and an audit of what they did.
///
/// Exits with 0 when nothing was found and enough happened, with 1 when something was found, and
/// with 2 when what was asked for makes no sense.
#[derive(Debug, Parser)]
#[command(name = "tidelock-stress", version)]
pub(crate) struct Args {
    /// What is to happen: all, or some of many-streams, hot-stream, churn, killed, stopped,
    /// reactions, runs, scopes, claims, closing, server-restart, bad-network
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// sqlite: (a temporary file), sqlite:PATH, postgres: (a server of its own) or a postgres://
    /// URL
    #[arg(long, value_name = "URL")]
    pub(crate) store: String,
    /// How many seconds each scenario is played for, at least; it goes on until enough has happened
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// After how many seconds a scenario ends in which too little has happened; 60 if it is not
    /// said, or 20 times the seconds if that is more
    #[arg(long, value_name = "N")]
    pub(crate) patience: Option<u64>,
    /// Play the scenarios again and again until this many minutes have passed
    #[arg(long, value_name = "N")]
    pub(crate) minutes: Option<u64>,
    /// How many worker processes, beside those that a scenario adds
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) workers: usize,
    /// Make the choices of an earlier run again
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How many commits must be acknowledged in each scenario, at least; 20 a second if it is not
    /// said
    #[arg(long, value_name = "N")]
    pub(crate) floor: Option<u64>,
    /// Put a store that breaks a promise under the workers, to see that it is found
    #[arg(long, hide = true, value_enum)]
    pub(crate) flaw: Option<Flaw>,
}

/// Seconds that the slowest machine needs for a short scenario, with much to spare.
const PATIENCE: u64 = 60;
/// How much slower than asked for a long scenario may be.
const TIMES_SLOWER: u64 = 20;

impl Args {
    /// For how long a scenario is played at the least.
    pub(crate) fn least(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// For how long a scenario is played if too little happens.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(
            self.patience.unwrap_or_else(|| PATIENCE.max(TIMES_SLOWER * self.seconds)),
        )
    }

    /// The command that makes the same choices again; a password has to be put in again by hand.
    pub(crate) fn replay(&self, seed: u64) -> String {
        let scenarios =
            if self.scenarios.is_empty() { "all".to_owned() } else { self.scenarios.join(" ") };
        let floor = self.floor.map_or(String::new(), |floor| format!(" --floor {floor}"));
        let patience =
            self.patience.map_or(String::new(), |patience| format!(" --patience {patience}"));
        let minutes = self.minutes.map_or(String::new(), |minutes| format!(" --minutes {minutes}"));
        format!(
            "tidelock-stress {scenarios} --store {} --seconds {}{patience}{minutes} --workers {}{floor} --seed {seed}",
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
        let typed = "tidelock-stress killed churn --store sqlite: --seconds 5 --patience 9 --minutes 2 --workers 3 --floor 7";
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
    fn a_long_scenario_has_more_patience_than_a_short_one() {
        let patience = |typed: &str| Args::parse_from(typed.split(' ')).patience().as_secs();
        assert_eq!(patience("tidelock-stress --store sqlite: --seconds 2"), 60);
        assert_eq!(patience("tidelock-stress --store sqlite: --seconds 10"), 200);
        assert_eq!(patience("tidelock-stress --store sqlite: --seconds 10 --patience 5"), 5);
    }
}
