//! Server addresses: where the servers of a database are, and how to connect to them.
//!
//! An address holds the password and never shows it. Logs and errors use its
//! [label](Address::label), `host:port/database`. Nothing is taken from the environment (`PGUSER`,
//! `PGPASSWORD`, `~/.pgpass`, the name of the system's user): a program connects to what its URL
//! names.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The servers of a database, in the order in which they are tried.
#[derive(Clone)]
pub(crate) struct Address {
    pub(super) user: String,
    pub(super) label: String,
    pub(super) routes: Vec<Route>,
    /// The route that last led to a usable server. Otherwise each connection would wait for the
    /// timeouts of the others.
    pub(super) last_good: Arc<AtomicUsize>,
    pub(super) connector: MakeRustlsConnect,
    pub(super) time_for_one_server: Duration,
}

/// The route to one of the servers.
#[derive(Clone)]
pub(crate) struct Route {
    pub(super) host_port: String,
    pub(super) config: Config,
}

impl Address {
    /// `host:port/database`, with all hosts if there are several.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// The routes in the order in which they are tried: the last good one comes first.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &Route> {
        let (before, from) = self.routes.split_at(self.last_good.load(Ordering::Relaxed));
        from.iter().chain(before)
    }

    /// Records that this route led to a usable server.
    pub(crate) fn was_good(&self, route: &Route) {
        let index = self.routes.iter().position(|known| std::ptr::eq(known, route));
        self.last_good.store(index.unwrap_or_default(), Ordering::Relaxed);
    }

    /// The last server is not tried first again, although it accepts connections.
    pub(crate) fn was_bad(&self) {
        let next = (self.last_good.load(Ordering::Relaxed) + 1) % self.routes.len();
        self.last_good.store(next, Ordering::Relaxed);
    }

    /// The TLS connector.
    pub(crate) fn connector(&self) -> MakeRustlsConnect {
        self.connector.clone()
    }

    /// The time limit per server, so that all of them together stay within the total limit.
    pub(crate) fn time_for_one_server(&self) -> Duration {
        self.time_for_one_server
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} as {}", self.label, self.user)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

impl Route {
    /// `host:port`.
    pub(crate) fn host_port(&self) -> &str {
        &self.host_port
    }

    /// The driver's configuration.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }
}

#[cfg(test)]
mod tests {
    use tidelock_store::Result;
    use tokio_postgres::config::TargetSessionAttrs;

    use super::*;
    use crate::open::PostgresOptions;

    fn parse(url: &str) -> Result<Address> {
        Address::parse(url, &mut PostgresOptions::default())
    }

    fn options_of(url: &str) -> PostgresOptions {
        let mut options = PostgresOptions::default();
        Address::parse(url, &mut options).unwrap();
        options
    }

    #[test]
    fn a_url_leads_to_the_servers_it_names() {
        let cases = [
            ("postgres://u:s3cret@localhost/d", "localhost:5432/d as u"),
            ("postgresql://u@127.0.0.1:5433", "127.0.0.1:5433/u as u"),
            ("postgres://u@[::1]:6000/d", "[::1]:6000/d as u"),
            ("postgres://u@localhost,127.0.0.1:2/d", "localhost:5432,127.0.0.1:2/d as u"),
            ("postgres:///d?host=localhost&port=7&user=u&password=s3cret", "localhost:7/d as u"),
            ("postgres://u@localhost,[::1]/d?port=7", "localhost:7,[::1]:7/d as u"),
            ("postgres://u@?host=localhost,::1&port=7,8&dbname=d", "localhost:7,[::1]:8/d as u"),
            ("postgres:///?hostaddr=127.0.0.1&user=u&dbname=d", "127.0.0.1:5432/d as u"),
            ("postgres://u:s3cret@/d?host=/run/postgresql", "/run/postgresql:5432/d as u"),
            ("postgres://u@%2Frun%2Fpostgresql:7/d", "/run/postgresql:7/d as u"),
            ("postgres://u@db.example/d?sslmode=require", "db.example:5432/d as u"),
            (
                "postgres://u%40x:s3cret%2F@localhost/d%20e?options=-c%20a%3Db",
                "localhost:5432/d e as u@x",
            ),
        ];
        for (url, expected) in cases {
            assert_eq!(parse(url).unwrap().to_string(), expected, "{url}");
        }
    }

    #[test]
    fn a_url_that_says_too_little_or_nonsense_is_refused_and_never_quoted() {
        let cases = [
            ("postgres://localhost/d", "names no user"),
            ("postgres://:s3cret@localhost/d", "names no user"),
            ("postgres://u:s3cret@/d", "names no host"),
            ("postgres://u:s3cret@/d?host=", "names no host"),
            ("postgres://u:s3cret@/d?host=a,,b", "names no host"),
            ("postgres://u:s3cret@localhost:99999/d", "from 1 to 65535"),
            ("postgres://u:s3cret@localhost:0/d", "from 1 to 65535"),
            ("postgres://u:s3cret", "from 1 to 65535"),
            ("postgres://u:s3c@ret@localhost", "%40"),
            ("postgres://u:s3cret@localhost,b/d?port=1,2,3", "2 hosts, 0 addresses and 3 ports"),
            (
                "postgres://u:s3cret@localhost,b/d?hostaddr=127.0.0.1",
                "2 hosts, 1 addresses and 0 ports",
            ),
            ("postgres://u:s3cret@localhost/d?hostaddr=localhost", "must be IP addresses"),
            ("postgres://u:s3cret@localhost/d?sslmode=on", "verify-full"),
            ("postgres://u:s3cret@a%20b/d?sslmode=require", "no certificate can have such a name"),
            ("postgres://u@localhost/d?pasword=s3cret", "unknown option \"pasword\""),
            ("postgres://u:s3cret@localhost/d?readers=0", "option readers=0"),
            ("postgres://u:s3cret@localhost/d?keepalives=2", "1 for yes, or 0 for no"),
            ("postgres://u:s3cret@localhost/d?target_session_attrs=primary", "read-write"),
            ("postgres://u:s3cret@localhost/d?connect_timeout=0", "from 1 to 600"),
        ];
        for (url, expected) in cases {
            let refused = parse(url).unwrap_err();
            assert!(refused.to_string().contains(expected), "{url}: {refused}");
            assert!(!format!("{refused:?}").contains("s3c"), "{url}: {refused:?}");
        }
    }

    #[test]
    fn an_address_never_shows_its_password() {
        let address = parse("postgres://u:s3cret@localhost/d").unwrap();
        assert_eq!(address.routes[0].config.get_password(), Some(b"s3cret".as_slice()));
        assert_eq!(format!("{address:?}"), "Address(localhost:5432/d as u)");
    }

    #[test]
    fn every_name_that_is_said_to_be_known_is_known() {
        let said = parse("postgres://u@h?x=y").unwrap_err().to_string();
        let (_, names) = said.split_once("there are ").unwrap();
        let words = names.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        for name in words.filter(|word| {
            !["", "and", "in", "a", "URL", "for", "the", "connection"].contains(word)
        }) {
            let answer = parse(&format!("postgres://?{name}=%01")).unwrap_err().to_string();
            assert!(!answer.contains("unknown option"), "{name}: {answer}");
        }
    }

    #[test]
    fn options_of_the_store_are_taken_from_the_url_too() {
        let options =
            options_of("postgres://u@localhost/d?schema=shop&connect_timeout=3&readers=9");
        assert_eq!((options.schema.as_str(), options.readers), ("shop", 9));
        assert_eq!(options.connect_timeout, Duration::from_secs(3));
    }

    #[test]
    fn the_time_there_is_is_shared_by_the_servers() {
        let address = parse("postgres://u@localhost,127.0.0.1/d?connect_timeout_ms=4000").unwrap();
        assert_eq!(address.time_for_one_server(), Duration::from_secs(2));
        assert_eq!(address.routes[1].config.get_connect_timeout(), Some(&Duration::from_secs(1)));
    }

    #[test]
    fn the_server_that_was_good_last_is_tried_first() {
        let address = parse("postgres://u@127.0.0.1,127.0.0.2,127.0.0.3/d").unwrap();
        let order = || {
            address
                .routes()
                .map(|route| route.host_port().replace(":5432", ""))
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(order(), "127.0.0.1 127.0.0.2 127.0.0.3");
        address.was_good(&address.routes[1]);
        assert_eq!(order(), "127.0.0.2 127.0.0.3 127.0.0.1");
    }

    #[test]
    fn a_server_that_stopped_answering_is_given_up_while_callers_wait() {
        let silent = |url: &str| {
            let config = parse(url).unwrap().routes[0].config.clone();
            (config.get_keepalives_idle(), config.get_tcp_user_timeout().copied())
        };
        let (usual, other) = (Duration::from_secs(30), Duration::from_secs(5));
        assert_eq!(silent("postgres://u@localhost"), (usual, Some(usual)));
        assert_eq!(
            silent("postgres://u@localhost?keepalives_idle=5&tcp_user_timeout=5000"),
            (other, Some(other)),
            "in seconds and milliseconds, as libpq has them"
        );
    }

    #[test]
    fn only_a_server_that_takes_writes_will_do_unless_the_url_says_otherwise() {
        let wanted = |url: &str| parse(url).unwrap().routes[0].config.get_target_session_attrs();
        assert_eq!(wanted("postgres://u@localhost"), TargetSessionAttrs::ReadWrite);
        assert_eq!(
            wanted("postgres://u@localhost?target_session_attrs=any"),
            TargetSessionAttrs::Any
        );
    }
}
