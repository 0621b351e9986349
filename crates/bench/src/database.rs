//! A database on a PostgreSQL server, in which a bench makes schemas of its own, and removes them.
//!
//! The bare clients go to the server without TLS: they are for a server on this machine.

use std::fmt;
use std::fs;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use tidelock::postgres::PostgresOptions;
use tidelock_test_postgres::Server;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

use crate::bare;
use crate::failure::Failure;

/// Of a server that is started for the run: no checkpoint should fall into a slice, and all rows
/// fit.
const SETTINGS: &[(&str, &str)] = &[("max_wal_size", "8GB"), ("shared_buffers", "512MB")];

/// How the usual clients are set up. Left to itself, the server plans some of the statements anew
/// each time: it takes the few rows of the first batches for what is to come.
const PLANNING: &str = "-c plan_cache_mode=force_generic_plan";

/// A server for this run, with room for its rows.
pub(crate) fn start_server() -> Result<Server, Failure> {
    Ok(Server::start_with(SETTINGS)?)
}

/// Where the schemas are made.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    config: Arc<Config>,
    /// What the store is told, which may know options that no driver knows; the schema is still
    /// missing.
    url: String,
    /// Of this run, if none was named.
    server: Option<Arc<Server>>,
}

impl Database {
    /// `postgres:` alone is a server that is started for the run. What follows a question mark is
    /// for the store, if it is one of its options, and otherwise for all.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        let rest = url.strip_prefix("postgres:").unwrap_or(url);
        if !rest.is_empty() && !rest.starts_with('?') {
            return Self::at(url, None);
        }
        let server = start_server()?;
        Self::at(&format!("{}{rest}", server.url()), Some(server.into()))
    }

    fn at(url: &str, server: Option<Arc<Server>>) -> Result<Self, Failure> {
        let (place, query) = url.split_once('?').unwrap_or((url, ""));
        let (for_store, for_all): (Vec<_>, Vec<_>) =
            query.split('&').partition(|option| is_of_store(option));
        if for_store.iter().any(|option| option.starts_with("schema=")) {
            return Err(unusable(
                "a bench only writes into schemas of its own, and chooses their names",
            ));
        }
        let config = format!("{place}?{}", for_all.join("&")).trim_end_matches('?').parse();
        let config = config.map_err(|e: tokio_postgres::Error| {
            let cause =
                std::error::Error::source(&e).map_or(String::new(), |cause| format!(": {cause}"));
            unusable(&format!("{e}{cause}"))
        })?;
        Ok(Self { config: Arc::new(config), url: url.to_owned(), server })
    }

    /// The URL of a store in a schema.
    pub(crate) fn store_url(&self, schema: &str) -> String {
        let joint = if self.url.contains('?') { '&' } else { '?' };
        format!("{}{joint}schema={schema}", self.url)
    }

    /// How clients get in whose tables are in these schemas, the first of them first.
    pub(crate) fn config(&self, schemas: &[&str]) -> Config {
        let mut config = Config::clone(&self.config);
        config.options(format!("-c search_path={} {PLANNING}", schemas.join(",")));
        config
    }

    /// What there is to know about a run's figures before one sees them.
    pub(crate) async fn describe(&self) -> Result<String, Failure> {
        let client = connect(&self.config).await?;
        let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
        let origin = if self.server.is_some() { ", started for this run" } else { "" };
        let mut lines = vec![format!("PostgreSQL {version} at {self}{origin}")];
        lines.extend(self.is_here().then(shared_cores));
        if !bare::has_pgbench() {
            lines.push(
                "pgbench is not installed: the bare limit is that of the driver alone".to_owned(),
            );
        }
        Ok(lines.join("\n"))
    }

    /// Whether the server has to share the cores with its clients.
    fn is_here(&self) -> bool {
        self.config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => ["localhost", "127.0.0.1", "::1"].contains(&name.as_str()),
            Host::Unix(_) => true,
        })
    }
}

/// Where it is; never the password.
impl fmt::Display for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => name.clone(),
            Some(Host::Unix(path)) => path.display().to_string(),
            None => "localhost".to_owned(),
        };
        let port = self.config.get_ports().first().unwrap_or(&5432);
        let name = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(f, "{host}:{port}/{name}")
    }
}

/// A connection that ends when its client is dropped.
pub(crate) async fn connect(config: &Config) -> Result<Client, Failure> {
    let (client, connection) = config.connect(NoTls).await?;
    // What goes wrong with it, the client is told with its next query.
    tokio::spawn(connection);
    Ok(client)
}

/// How much machine there was for all.
fn shared_cores() -> String {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "server, callers and bare clients share {cores} cores; load average before the run: {load}"
    )
}

fn is_of_store(option: &str) -> bool {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    PostgresOptions::default().set(name, value).is_ok()
}

fn unusable(why: &str) -> Failure {
    Failure::Usage {
        what: format!("the URL of the database cannot be used: {why}"),
        hint: "postgres: for a server of the run's own, or postgres://USER@HOST/DATABASE"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_store_are_kept_from_the_driver_and_the_password_from_everybody() {
        let url = "postgres://joe:hush@localhost:7/shop?readers=2&connect_timeout=3";
        let database = Database::parse(url).unwrap();
        assert_eq!(database.to_string(), "localhost:7/shop");
        assert_eq!(database.store_url("s"), format!("{url}&schema=s"));
        assert_eq!(
            database.config(&["a", "b"]).get_options().unwrap().split(' ').nth(1),
            Some("search_path=a,b")
        );
        assert!(database.is_here());
    }

    #[test]
    fn a_url_that_no_bench_can_use_is_refused_and_never_quoted() {
        let refusal = |url| Database::parse(url).unwrap_err().to_string();
        assert!(
            refusal("postgres://joe:hush@localhost?schema=shop").contains("schemas of its own")
        );
        assert!(refusal("postgres://joe:hush@localhost?cache=shared").contains("`cache`"));
        assert!(!refusal("postgres://joe:hush@localhost:port").contains("hush"));
    }
}
