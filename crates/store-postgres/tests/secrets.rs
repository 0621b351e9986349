//! Secrets: a password is never shown, not in errors, not in the log, not in `Debug`.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

use std::error::Error;
use std::fmt::{self, Write};
use std::fs;
use std::sync::{LazyLock, Mutex, Once};

use tidelock_store::{RetryAdvice, StoreError, StoreErrorKind};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::{Server, Stop};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const RIGHT: &str = "open-sesame";
const WRONG: &str = "barley-corn";

/// A server that requires a password over TCP.
static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let server = Server::start().unwrap();
    server
        .run_sql("postgres", &format!("CREATE ROLE app SUPERUSER LOGIN PASSWORD '{RIGHT}'"))
        .unwrap();
    let rules = "local all all trust\nhost all all all scram-sha-256\n";
    fs::write(server.data_folder().join("pg_hba.conf"), rules).unwrap();
    server.restart(Stop::Fast).unwrap();
    server
});

async fn open(user: &str) -> Result<PostgresStore, StoreError> {
    Everything::listen();
    PostgresStore::open(&SERVER.url_of(user, "postgres")).await
}

async fn refusal(user: &str) -> StoreError {
    let refused = open(user).await.map(drop).expect_err("the server refuses this login");
    assert_eq!(
        (refused.kind(), refused.advice()),
        (StoreErrorKind::Invalid, RetryAdvice::Never),
        "{refused}"
    );
    refused
}

/// The full text of an error and its sources.
fn chain(error: &(dyn Error + 'static)) -> String {
    let rest = error.source().map(chain).unwrap_or_default();
    format!("{error}\n{error:?}\n{error:#?}\n{rest}")
}

#[tokio::test]
async fn the_right_password_lets_in_and_is_not_seen_again() {
    let store = open(&format!("app:{RIGHT}")).await.unwrap();
    assert!(!format!("{store:?}").contains(RIGHT));
    assert!(!Everything::said().contains(RIGHT));
}

#[tokio::test]
async fn a_wrong_password_is_refused_and_not_repeated() {
    let refused = refusal(&format!("app:{WRONG}")).await;
    assert!(refused.context().contains("check the user and the password"), "{refused}");
    assert!(!chain(&refused).contains(WRONG), "{}", chain(&refused));
    assert!(!Everything::said().contains(WRONG));
}

#[tokio::test]
async fn a_forgotten_password_is_asked_for() {
    let refused = refusal("app").await;
    assert!(refused.context().contains("USER:PASSWORD"), "{refused}");
}

#[tokio::test]
async fn a_url_that_is_not_understood_is_not_repeated() {
    Everything::listen();
    for url in [
        format!("postgres://app:{WRONG}@host:99999/db"),
        format!("postgres://app:p@{WRONG}@host/db"),
        format!("postgres://app:p/{WRONG}@host/db"),
        format!("postgres://app:{WRONG}%@host/db"),
        format!("postgres://app:{WRONG}"),
        format!("postgres//app:{WRONG}@host/db"),
        format!("postgres://app@host/db?pasword={WRONG}"),
        format!("postgres://app@host/db?{WRONG}"),
    ] {
        let refused = PostgresStore::open(&url).await.map(drop).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Invalid, "{refused}");
        assert!(!chain(&refused).contains(WRONG), "{}", chain(&refused));
    }
    assert!(!Everything::said().contains(WRONG));
}

#[tokio::test]
async fn what_is_logged_is_heard_here() {
    Everything::listen();
    tracing::trace!(answer = 42, "from {}", "us");
    log::trace!("from the {}", "driver");
    let said = Everything::said();
    assert!(
        said.contains("answer=42") && said.contains("from us") && said.contains("from the driver"),
        "{said}"
    );
}

/// Captures everything that is logged in this process, by us and by the driver, at every level.
struct Everything;

static SAID: Mutex<String> = Mutex::new(String::new());

impl Everything {
    fn listen() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            tracing::subscriber::set_global_default(Self).unwrap();
            log::set_logger(&Self).unwrap();
            log::set_max_level(log::LevelFilter::Trace);
        });
    }

    fn said() -> String {
        SAID.lock().unwrap().clone()
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut Self);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut Self);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Self);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

impl Visit for Everything {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        writeln!(SAID.lock().unwrap(), "{field}={value:?}").unwrap();
    }
}

impl log::Log for Everything {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        writeln!(SAID.lock().unwrap(), "{}", record.args()).unwrap();
    }

    fn flush(&self) {}
}
