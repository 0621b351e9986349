//! The store under test: where it is, and which faults it supports.

use std::fmt;

use tempfile::TempDir;
use tidelock_test_postgres::{Proxy, Server};

use crate::failure::Failure;

const KNOWN: &str = "sqlite:, sqlite:PATH, postgres: or postgres://USER@HOST:PORT/DATABASE";

/// For dozens of workers with several connections each.
const CONNECTIONS: (&str, &str) = ("max_connections", "400");

#[derive(Debug)]
pub(crate) enum Target {
    /// A file, in a temporary folder if none was named.
    File { url: String, _folder: Option<TempDir> },
    /// An existing server. It must not be restarted.
    Given { url: String },
    /// A private server.
    Own { server: Server },
}

/// What a scenario needs besides a store that several processes can open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// A server that can be restarted.
    Server,
    /// A network that a proxy can disturb.
    Network,
}

impl Target {
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        match url {
            "sqlite:" => {
                let folder = tempfile::Builder::new().prefix("tidelock-stress-").tempdir()?;
                let url = format!("sqlite:{}", folder.path().join("stress.db").display());
                Ok(Self::File { url, _folder: Some(folder) })
            }
            "postgres:" => Ok(Self::Own { server: Server::start_with(&[CONNECTIONS])? }),
            _ if url.starts_with("sqlite:") => {
                Ok(Self::File { url: url.to_owned(), _folder: None })
            }
            _ if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                Ok(Self::Given { url: url.to_owned() })
            }
            _ => Err(Failure::Usage {
                what: format!(
                    "store {:?} is none that several processes can share",
                    tidelock::redacted_url(url)
                ),
                hint: KNOWN.to_owned(),
            }),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::File { url, .. } | Self::Given { url } => url.clone(),
            Self::Own { server } => server.url(),
        }
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        match self {
            Self::Own { server } => Some(server),
            Self::File { .. } | Self::Given { .. } => None,
        }
    }

    /// Why a scenario with these needs does not apply.
    pub(crate) fn lacks(&self, needs: Needs) -> Option<&'static str> {
        match (needs, self) {
            (Needs::Server, Self::File { .. }) => Some("a file has no server to restart"),
            (Needs::Server, Self::Given { .. }) => {
                Some("the server was given by its URL, and is not ours to restart")
            }
            (Needs::Network, Self::File { .. }) => {
                Some("there is no network between a process and a file")
            }
            (Needs::Network, Self::Given { url }) if local_port(url).is_none() => {
                Some("a proxy can only be put in front of a server on this machine, by TCP")
            }
            _ => None,
        }
    }

    /// A proxy in front of the server, and the URL that leads through it.
    pub(crate) fn behind_proxy(&self) -> Result<(Proxy, String), Failure> {
        let url = self.url();
        let (port, place) = local_port(&url).ok_or_else(|| {
            Failure::Setup("no proxy can be put in front of this store".to_owned())
        })?;
        let proxy = Proxy::to(port)?;
        let through =
            format!("{}127.0.0.1:{}{}", &url[..place.start], proxy.port(), &url[place.end..]);
        Ok((proxy, through))
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { url, .. } => f.write_str(url),
            Self::Own { .. } => f.write_str("a PostgreSQL server of our own"),
            Self::Given { url } => f.write_str(&tidelock::redacted_url(url)),
        }
    }
}

/// The port of a server on this machine, and the range of host and port in the URL.
fn local_port(url: &str) -> Option<(u16, std::ops::Range<usize>)> {
    let authority = url.find("://")? + "://".len();
    let end = url[authority..].find(['/', '?']).map_or(url.len(), |end| authority + end);
    let start = url[authority..end].rfind('@').map_or(authority, |at| authority + at + 1);
    let (host, port) = match url[start..end].rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (&url[start..end], 5432),
    };
    matches!(host, "localhost" | "127.0.0.1").then_some((port, start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stores_that_processes_can_share_are_accepted() {
        assert!(Target::parse("sqlite:").unwrap().url().ends_with("stress.db"));
        assert_eq!(
            Target::parse("sqlite:shop.db?readers=1").unwrap().url(),
            "sqlite:shop.db?readers=1"
        );
        for refused in ["memory:", "redis://localhost", "shop.db"] {
            assert_eq!(Target::parse(refused).unwrap_err().exit_code(), 2, "{refused}");
        }
    }

    #[test]
    fn a_proxy_goes_in_front_of_a_server_on_this_machine_and_of_no_other() {
        let port = |url| local_port(url).map(|(port, place)| (port, url[place].to_owned()));
        assert_eq!(
            port("postgres://me:p@ss@localhost:5433/shop"),
            Some((5433, "localhost:5433".to_owned()))
        );
        assert_eq!(
            port("postgres://127.0.0.1?sslmode=disable"),
            Some((5432, "127.0.0.1".to_owned()))
        );
        assert_eq!(port("postgres://me@db.example/shop"), None);
        let far = Target::parse("postgres://me@db.example/shop").unwrap();
        assert!(far.lacks(Needs::Network).is_some() && far.lacks(Needs::Nothing).is_none());
    }

    #[test]
    fn needs_that_a_file_cannot_meet_are_reported() {
        let file = Target::parse("sqlite:").unwrap();
        assert!(file.lacks(Needs::Server).is_some() && file.lacks(Needs::Network).is_some());
        assert_eq!(file.lacks(Needs::Nothing), None);
    }

    #[test]
    fn a_password_is_not_shown() {
        for (url, shown) in [
            ("postgres://me:secret@localhost/shop", "postgres://me@localhost/shop"),
            (
                "postgres://me@localhost/shop?password=secret",
                "postgres://me@localhost/shop?password=…",
            ),
        ] {
            assert_eq!(Target::parse(url).unwrap().to_string(), shown);
        }
        for url in ["postgress://me:secret@localhost", "host=localhost password=secret"] {
            let refused = Target::parse(url).unwrap_err().to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
