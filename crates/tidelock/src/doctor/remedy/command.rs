//! Remedy actions as shell commands that can be copied.

use super::{RemedyAction, RemedyTask};
use crate::doctor::display::{length, quoted};

impl RemedyAction {
    /// Returns the command for the default store.
    ///
    /// A word in capitals is a placeholder.
    pub fn command(&self) -> String {
        self.command_on(None)
    }

    /// Returns the command for the store at this URL.
    ///
    /// Secrets in the URL are left out and have to be given in another way (`PGPASSWORD`, a
    /// password file).
    pub fn command_on(&self, store: Option<&str>) -> String {
        let mut words = self.words();
        if let Some(store) = store.filter(|_| !matches!(self, Self::EndSession { .. })) {
            words.extend(["--store".to_owned(), without_secrets(store)]);
        }
        words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }

    fn words(&self) -> Vec<String> {
        match self {
            Self::Unblock(work) => tidelock("unblock", work.words()),
            Self::Defer { work, wait } => {
                tidelock("defer", [vec![length(*wait)], work.words()].concat())
            }
            Self::Resume { run } => tidelock("resume", [run.as_str()]),
            Self::Cancel { run } => tidelock("cancel", [run.as_str()]),
            Self::Resolve { run, step } => {
                tidelock("resolve", [run.as_str(), step.as_str(), "--done", "RESULT"])
            }
            Self::Reroute { reaction, from_beginning } => {
                let from = if *from_beginning { "beginning" } else { "now" };
                tidelock("reroute", [reaction, "--from", from])
            }
            Self::Release { claim } => tidelock("release", [claim]),
            Self::Close { stream } => tidelock("close", [stream.as_str(), "--archive", "FILE"]),
            Self::EndSession { session } => {
                words(["psql", "-c", &format!("SELECT pg_terminate_backend({session})")])
            }
            Self::ShowEvent { position } => {
                let after = position.saturating_sub(1).to_string();
                tidelock("events", ["--after", &after, "--limit", "1"])
            }
            Self::RaiseScanLimit { scan } => tidelock("doctor", ["--scan", &scan.to_string()]),
            Self::RaiseRunLimit { runs } => tidelock("doctor", ["--runs", &runs.to_string()]),
        }
    }
}

impl RemedyTask {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Target { reaction, target } => {
                words(["--reaction", reaction, "--target", target])
            }
            Self::Item { queue, key } => words(["--queue", queue, "--key", key]),
            Self::Queue { queue } => words(["--queue", queue]),
        }
    }
}

/// Removes the options whose values were redacted, so that the URL can be used.
fn without_secrets(url: &str) -> String {
    let Some((front, options)) = url.split_once('?') else { return url.to_owned() };
    let kept: Vec<_> = options.split('&').filter(|option| !option.ends_with("=…")).collect();
    if kept.is_empty() { front.to_owned() } else { format!("{front}?{}", kept.join("&")) }
}

fn tidelock(verb: &str, more: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
    words(["tidelock", verb]).into_iter().chain(more.into_iter().map(Into::into)).collect()
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_command_names_its_work_and_can_be_copied() {
        let item = RemedyTask::Item { queue: "mail".to_owned(), key: "$(reboot)".to_owned() };
        assert_eq!(
            RemedyAction::Unblock(item.clone()).command(),
            "tidelock unblock --queue mail --key '$(reboot)'"
        );
        let defer = RemedyAction::Defer { work: item, wait: Duration::from_secs(3_600) };
        assert_eq!(defer.command(), "tidelock defer 1h --queue mail --key '$(reboot)'");
        assert_eq!(
            RemedyAction::EndSession { session: 7 }.command(),
            "psql -c 'SELECT pg_terminate_backend(7)'"
        );
    }

    /// CMD-2. A displayed URL has no password in it, and no command may contain its placeholder.
    #[test]
    fn a_command_names_its_store_without_secrets() {
        let further = |url: &str| {
            RemedyAction::RaiseScanLimit { scan: 9 }.command_on(Some(&crate::redacted_url(url)))
        };
        for (url, shown) in [
            ("sqlite:shop.db", "sqlite:shop.db"),
            ("postgres://joe:hush@host/shop", "postgres://joe@host/shop"),
            ("postgres://host/shop?password=hush", "postgres://host/shop"),
            ("postgres://host/shop?password=hush&schema=s", "'postgres://host/shop?schema=s'"),
        ] {
            assert_eq!(further(url), format!("tidelock doctor --scan 9 --store {shown}"));
        }
        let session =
            RemedyAction::EndSession { session: 7 }.command_on(Some("postgres://host/shop"));
        assert!(!session.contains("--store"), "{session}");
    }
}
