//! A new schema on a calendar that the suite moves; every handle is a separate open, with its own
//! connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tidelock_store::{Clock, ManualClock, Store, async_trait};
use tidelock_store_conformance::Subject;
use tidelock_store_postgres::tokio_postgres::{self, Client, NoTls};
use tidelock_store_postgres::{Notify, PostgresOptions, PostgresStore, SchemaName};
use tokio::sync::OnceCell;

pub(crate) struct PostgresSubject {
    url: String,
    schema: SchemaName,
    /// The monotonic clock of every handle; its wall clock is not used, since the database has one.
    clock: ManualClock,
    admin: Client,
    /// Reads the clock whenever the calendar was set.
    keeper: OnceCell<PostgresStore>,
}

impl PostgresSubject {
    /// A schema in which this script was run; `@` is its name.
    pub(crate) async fn over(script: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let url = tidelock_test_postgres::shared_database().expect("a server");
        let nth = COUNT.fetch_add(1, Ordering::SeqCst);
        let schema =
            SchemaName::new(format!("case_{}_{nth}", std::process::id())).expect("a good name");
        let (admin, connection) = tokio_postgres::connect(&url, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        let subject =
            Self { url, schema, clock: ManualClock::default(), admin, keeper: OnceCell::new() };
        subject.make_tables().await;
        let script = script.replace('@', subject.schema.as_str());
        subject.admin.batch_execute(&script).await.expect("the script runs");
        subject.replace_calendar().await;
        subject
    }

    /// By a handle that is closed again before it could have read the calendar.
    async fn make_tables(&self) {
        let quiet = PostgresOptions { readers: 1, notify: Notify::Never, ..self.options() };
        self.make(quiet).await.close().await.expect("it closes");
    }

    async fn make(&self, options: PostgresOptions) -> PostgresStore {
        PostgresStore::open_with(&self.url, options).await.expect("the store opens")
    }

    fn options(&self) -> PostgresOptions {
        PostgresOptions {
            schema: self.schema.clone(),
            clock: Arc::new(self.clock.clone()),
            // Connections are most of the suite's cost here. Two are enough to read over another
            // one than before.
            readers: 2,
            // The suite tests signals, not polling.
            poll_interval: Duration::from_secs(60),
            // The suite moves the calendar and the monotonic clock one after the other; the clock
            // must not be read in between.
            sweep_interval: Duration::from_secs(3600),
            ..PostgresOptions::default()
        }
    }

    /// From now on the suite controls the database's calendar.
    async fn replace_calendar(&self) {
        let (schema, start) = (self.schema.as_str(), self.clock.wall().micros());
        let sql = format!(
            "CREATE TABLE {schema}.suite_calendar (micros bigint);
             INSERT INTO {schema}.suite_calendar VALUES ({start});
             CREATE OR REPLACE FUNCTION {schema}.calendar() RETURNS bigint LANGUAGE sql VOLATILE
                 AS 'SELECT micros FROM {schema}.suite_calendar'"
        );
        self.admin.batch_execute(&sql).await.expect("the calendar is replaced");
    }

    async fn set_calendar(&self, change: i64) {
        let schema = self.schema.as_str();
        let sql = format!("UPDATE {schema}.suite_calendar SET micros = greatest(micros + $1, 0)");
        self.admin.execute(&sql, &[&change]).await.expect("the calendar moves");
    }

    async fn keeper(&self) -> &PostgresStore {
        self.keeper.get_or_init(|| self.make(self.options())).await
    }

    /// Does what every handle does once a second while it is used.
    async fn look_at_the_clock(&self) {
        self.keeper().await.now().await.expect("there is a clock");
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).expect("a case does not wait for that long")
}

#[async_trait]
impl Subject for PostgresSubject {
    async fn open(&self) -> Arc<dyn Store> {
        Arc::new(self.make(self.options()).await)
    }

    async fn advance(&self, duration: Duration) {
        self.clock.advance(duration);
        self.set_calendar(micros(duration)).await;
    }

    async fn set_forward(&self, duration: Duration) {
        self.look_at_the_clock().await;
        self.set_calendar(micros(duration)).await;
        self.look_at_the_clock().await;
    }

    async fn set_back(&self, duration: Duration) {
        self.look_at_the_clock().await;
        self.set_calendar(-micros(duration)).await;
        self.look_at_the_clock().await;
    }

    async fn sweep(&self) {
        self.keeper().await.sweep().await.expect("the store is swept");
    }
}
