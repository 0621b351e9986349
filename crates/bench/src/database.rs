//! A database on a PostgreSQL server, in which a bench creates its own schemas, and removes them.
//!
//! The baseline clients connect without TLS: they are for a server on this machine.

use std::fmt;
use std::fs;
use std::num::NonZero;
use std::sync::Arc;
use std::thread;

use tidelock::postgres::PostgresOptions;
use tidelock_test_postgres::Server;
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

use crate::baseline;
use crate::failure::Failure;

/// Settings of a private server: no checkpoint should fall into a slice, and all rows fit into
/// memory.
const SETTINGS: &[(&str, &str)] = &[("max_wal_size", "8GB"), ("shared_buffers", "512MB")];

/// Planner settings of the clients. By default the server plans some of the statements again each
/// time, because it takes the few rows of the first batches as typical.
const PLANNING: &str = "-c plan_cache_mode=force_generic_plan";

/// A private server for this run.
pub(crate) fn start_server() -> Result<Server, Failure> {
    Ok(Server::start_with(SETTINGS)?)
}

/// The database of the schemas.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    config: Arc<Config>,
    /// The URL for the store, which may contain options that the driver does not know; without the
    /// schema.
    url: String,
    /// The private server, if none was named.
    server: Option<Arc<Server>>,
}

impl Database {
    /// `postgres:` alone is a private server. The query of the URL is for the store, if it is one
    /// of its options, and otherwise for all clients.
    pub(crate) fn parse(url: &str) -> Result<Self, Failure> {
        let rest = url.strip_prefix("postgres:").unwrap_or(url);
        if !rest.is_empty() && !rest.starts_with('?') {
            return Self::at(url, None);
        }
        let server = start_server()?;
        Self::at(&format!("{}{rest}", server.url()), Some(server.into()))
    }

    fn at(url: &str, server: Option<Arc<Server>>) -> Result<Self, Failure> {
        let (aging_store, query) = url.split_once('?').unwrap_or((url, ""));
        let (for_store, for_all): (Vec<_>, Vec<_>) =
            query.split('&').partition(|option| is_of_store(option));
        if for_store.iter().any(|option| option.starts_with("schema=")) {
            return Err(unusable(
                "a bench only writes into its own schemas, and chooses their names",
            ));
        }
        let config = format!("{aging_store}?{}", for_all.join("&")).trim_end_matches('?').parse();
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

    /// The URL as it was named, or that of the private server.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The configuration of clients with these schemas in their search path, in order.
    pub(crate) fn config(&self, schemas: &[&str]) -> Config {
        let mut config = Config::clone(&self.config);
        config.options(format!("-c search_path={} {PLANNING}", schemas.join(",")));
        config
    }

    /// A description of the server, printed above the figures.
    pub(crate) async fn describe(&self) -> Result<String, Failure> {
        let client = connect(&self.config).await?;
        let version: String = client.query_one("SHOW server_version", &[]).await?.get(0);
        let origin = if self.server.is_some() { ", started for this run" } else { "" };
        let mut lines = vec![format!("PostgreSQL {version} at {self}{origin}")];
        lines.extend(self.is_here().then(shared_cores));
        if !baseline::has_pgbench() {
            lines.push("pgbench is not installed: the baseline is the driver alone".to_owned());
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

/// The address, never the password.
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
    // Its errors are reported by the client's next query.
    tokio::spawn(connection);
    Ok(client)
}

/// The cores and the load of the machine.
fn shared_cores() -> String {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    format!(
        "server, callers and baseline clients share {cores} cores; load average before the run: {load}"
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
    fn options_of_the_store_are_kept_from_the_driver_and_the_password_is_not_shown() {
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
        assert!(refusal("postgres://joe:hush@localhost?schema=shop").contains("its own schemas"));
        assert!(refusal("postgres://joe:hush@localhost?cache=shared").contains("`cache`"));
        assert!(!refusal("postgres://joe:hush@localhost:port").contains("hush"));
    }
}
