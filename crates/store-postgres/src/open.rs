//! Options of a database, set by a program or a URL.
//!
//! How to reach the server is not an option; that is the [address](crate::connect::Address).

use std::sync::Arc;
use std::time::Duration;

use tidelock_store::{Clock, Result, StoreError, SystemClock};

use crate::connect::SchemaName;
use crate::connect::Setting;

/// Whether statements are prepared once and kept by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepare {
    /// Once per connection: the fastest.
    Always,
    /// Never: for a proxy in transaction mode that does not track prepared statements.
    Never,
}

/// How waiters learn of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    /// By LISTEN/NOTIFY, over a separate connection.
    Listen,
    /// By polling only: for a proxy that does not forward notifications.
    Never,
}

/// Options of a database.
#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// The schema that holds the store's tables. Stores in different schemas are independent.
    pub schema: SchemaName,
    /// The number of read connections.
    pub readers: usize,
    /// The most user transactions open at the same time. Each has its own connection.
    pub transactions: usize,
    /// Whether statements are prepared once and kept by the server.
    pub prepare: Prepare,
    /// How waiters learn of changes.
    pub notify: Notify,
    /// How often waiters are woken to poll, independent of notifications.
    pub poll_interval: Duration,
    /// How often the store, while it is used, saves its clock and removes what is past its
    /// retention.
    pub sweep_interval: Duration,
    /// How long it may take until a connection is ready for use, over all servers that the URL
    /// names.
    pub connect_timeout: Duration,
    /// Whether opening migrates the tables. When off, tables that are not up to date are refused:
    /// for a role that may not change them.
    pub migrate: bool,
    /// Whether to accept a server that can lose acknowledged commits in a crash (`fsync` or
    /// `synchronous_commit` is off there).
    pub allow_lossy: bool,
    /// Measures how long things take. Deadlines and due times are on the database's clock, never on
    /// this one.
    pub clock: Arc<dyn Clock>,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            schema: SchemaName::default(),
            readers: 2,
            transactions: 8,
            prepare: Prepare::Always,
            notify: Notify::Listen,
            poll_interval: Duration::from_secs(1),
            sweep_interval: Duration::from_secs(1),
            connect_timeout: Duration::from_secs(10),
            migrate: true,
            allow_lossy: false,
            clock: Arc::new(SystemClock::default()),
        }
    }
}

impl PostgresOptions {
    /// Sets an option by its name in a URL.
    ///
    /// # Errors
    /// `Invalid` if there is no such option, or the value does not fit it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let setting = Setting { name, value };
        match name {
            "connect_timeout_ms" => self.connect_timeout = setting.millis(1, 600_000)?,
            "transactions" => self.transactions = setting.number(1, 256)?,
            "lossy" => self.allow_lossy = setting.choice(&[("refuse", false), ("allow", true)])?,
            "migrate" => self.migrate = setting.switch()?,
            "notify" => {
                self.notify =
                    setting.choice(&[("listen", Notify::Listen), ("never", Notify::Never)])?;
            }
            "poll_interval_ms" => self.poll_interval = setting.millis(1, 60_000)?,
            "prepare" => {
                self.prepare =
                    setting.choice(&[("always", Prepare::Always), ("never", Prepare::Never)])?;
            }
            "readers" => self.readers = setting.number(1, 64)?,
            "schema" => self.schema = SchemaName::new(value)?,
            "sweep_interval_ms" => self.sweep_interval = setting.millis(10, 3_600_000)?,
            _ => return Err(unknown(name)),
        }
        Ok(())
    }
}

fn unknown(name: &str) -> StoreError {
    StoreError::invalid(format!(
        "unknown option {name:?} for a PostgreSQL database: there are connect_timeout_ms, lossy, migrate, notify, \
         poll_interval_ms, prepare, readers, schema, sweep_interval_ms and transactions; and in a URL, for the connection, application_name, \
         channel_binding, connect_timeout, dbname, host, hostaddr, keepalives, keepalives_count, keepalives_idle, \
         keepalives_interval, options, password, port, sslcert, sslkey, sslmode, sslrootcert, target_session_attrs, \
         tcp_user_timeout and user"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_option_is_refused_by_name() {
        let mut options = PostgresOptions::default();
        let refused = options.set("reader", "1").unwrap_err().to_string();
        assert!(
            refused.contains("\"reader\"") && refused.contains("poll_interval_ms"),
            "{refused}"
        );
        assert!(options.set("readers", "none").unwrap_err().to_string().contains("from 1 to 64"));
    }

    #[test]
    fn every_option_can_be_set_by_name() {
        let mut options = PostgresOptions::default();
        let settings = [
            ("connect_timeout_ms", "1500"),
            ("transactions", "256"),
            ("lossy", "allow"),
            ("migrate", "0"),
            ("notify", "never"),
            ("poll_interval_ms", "60000"),
            ("sweep_interval_ms", "5000"),
            ("prepare", "never"),
            ("readers", "64"),
            ("schema", "shop"),
        ];
        for (name, value) in settings {
            options.set(name, value).unwrap();
        }
        assert_eq!(options.connect_timeout, Duration::from_millis(1500));
        assert_eq!((options.transactions, options.readers), (256, 64));
        assert_eq!((options.allow_lossy, options.migrate), (true, false));
        assert_eq!((options.notify, options.prepare), (Notify::Never, Prepare::Never));
        assert_eq!(options.poll_interval, Duration::from_secs(60));
        assert_eq!(options.sweep_interval, Duration::from_secs(5));
        assert_eq!(options.schema.as_str(), "shop");
    }
}
