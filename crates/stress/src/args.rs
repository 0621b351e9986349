//! What can be typed, as types.

use clap::Parser;

use crate::broken::Flaw;

/// Real worker processes on one store, injured while they work, and an audit of what they did.
///
/// Exits with 0 when nothing was found and enough happened, with 1 when something was found, and with 2 when what was
/// asked for makes no sense.
#[derive(Debug, Parser)]
#[command(name = "tidelock-stress", version)]
pub(crate) struct Args {
    /// What is to happen: all, or some of many-streams, hot-stream, churn, killed, stopped, reactions, server-restart,
    /// bad-network
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// sqlite: (a temporary file), sqlite:PATH, postgres: (a server of its own) or a postgres:// URL
    #[arg(long, value_name = "URL")]
    pub(crate) store: String,
    /// How many seconds each scenario is played for
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,
    /// Play the scenarios again and again until this many minutes have passed
    #[arg(long, value_name = "N")]
    pub(crate) minutes: Option<u64>,
    /// How many worker processes, beside those that a scenario adds
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub(crate) workers: usize,
    /// Make the choices of an earlier run again
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// How many commits must be acknowledged in each scenario, at least; 20 a second if it is not said
    #[arg(long, value_name = "N")]
    pub(crate) floor: Option<u64>,
    /// Put a store that breaks a promise under the workers, to see that it is found
    #[arg(long, hide = true, value_enum)]
    pub(crate) flaw: Option<Flaw>,
}

impl Args {
    /// The command that makes the same choices again.
    pub(crate) fn replay(&self, seed: u64) -> String {
        let scenarios = if self.scenarios.is_empty() { "all".to_owned() } else { self.scenarios.join(" ") };
        let floor = self.floor.map_or(String::new(), |floor| format!(" --floor {floor}"));
        let minutes = self.minutes.map_or(String::new(), |minutes| format!(" --minutes {minutes}"));
        format!(
            "tidelock-stress {scenarios} --store {} --seconds {}{minutes} --workers {}{floor} --seed {seed}",
            self.store, self.seconds, self.workers
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_replay_command_asks_for_the_same_again() {
        let typed =
            "tidelock-stress killed churn --store sqlite: --seconds 5 --minutes 2 --workers 3 --floor 7";
        let args = Args::parse_from(typed.split(' '));
        assert_eq!(args.replay(42), format!("{} --seed 42", typed.replace(" --floor 7", "") + " --floor 7"));
        assert_eq!(Args::parse_from(args.replay(42).split(' ')).seed, Some(42));
        let all = Args::parse_from(["tidelock-stress", "--store", "sqlite:"]);
        assert_eq!(all.replay(1), "tidelock-stress all --store sqlite: --seconds 10 --workers 4 --seed 1");
    }
}
