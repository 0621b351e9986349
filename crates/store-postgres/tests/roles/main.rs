//! The roles of `sql/roles.sql`: each can do what it is for, and the server refuses everything
//! else.

// Clippy lets tests unwrap, but not their helpers.
#![allow(clippy::unwrap_used)]

mod application;
#[path = "../ground/mod.rs"]
mod ground;
mod reader;
mod refusals;
mod script;

use std::sync::{LazyLock, Mutex};

use ground::{Ground, Plain};
use tidelock_store::{
    ExpectedRevision, RawJson, RecordKey, RecordWrite, RetryAdvice, Store, StoreError,
    StoreErrorKind,
};
use tidelock_store_postgres::PostgresStore;
use tidelock_store_postgres::tokio_postgres::error::SqlState;
use tidelock_test_postgres::Server;

const SCRIPT: &str = include_str!("../../sql/roles.sql");

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::start().unwrap());

/// A schema with its roles, and a login for each of them.
struct Shop {
    ground: Ground,
    /// A connection with all rights.
    admin: Plain,
}

impl Shop {
    /// As in the guide: roles, then tables, then rights.
    async fn new() -> Self {
        let shop = Self::without_tables().await;
        shop.open("owner").await.close().await.unwrap();
        shop.run_script();
        shop
    }

    async fn without_tables() -> Self {
        let shop = Self::without_roles().await;
        shop.run_script();
        shop.make_logins().await;
        shop
    }

    async fn without_roles() -> Self {
        let ground = Ground::on(&SERVER.url());
        Self { admin: ground.connect().await, ground }
    }

    /// One at a time: the server refuses two that grant rights on the same database at once.
    fn run_script(&self) {
        static TURN: Mutex<()> = Mutex::new(());
        let _turn = TURN.lock().unwrap();
        SERVER
            .run_sql("postgres", &format!("\\set schema {}\n{SCRIPT}", self.ground.schema))
            .unwrap();
    }

    async fn make_logins(&self) {
        for role in ["owner", "app", "reader"] {
            self.admin.run(&format!("CREATE ROLE @_{role}_login LOGIN IN ROLE @_{role}")).await;
        }
        self.admin.run("ALTER ROLE @_owner_login SET role = @_owner").await;
    }

    fn url(&self, role: &str) -> String {
        SERVER.url_of(&format!("{}_{role}_login", self.ground.schema), "postgres")
    }

    async fn open(&self, role: &str) -> PostgresStore {
        let mut ground = self.ground.clone();
        ground.url = self.url(role);
        ground.open_with(|options| options.poll_interval = ground::NEVER).await
    }

    async fn refusal_to_open(&self, role: &str) -> StoreError {
        let url = format!("{}?schema={}", self.url(role), self.ground.schema);
        PostgresStore::open(&url).await.map(drop).expect_err("it cannot be opened")
    }

    /// From now on the database's calendar is an hour behind.
    async fn set_calendar_back(&self) {
        self.ground.own_calendar().await;
        self.admin.run("GRANT SELECT ON tidelock.ahead TO @_app, @_reader").await;
        self.admin.run("UPDATE tidelock.ahead SET micros = -3600::bigint * 1000000").await;
    }

    /// A connection with the rights of this role and no others.
    async fn connect(&self, role: &str) -> Plain {
        let plain = self.ground.connect().await;
        plain.run(&format!("SET SESSION AUTHORIZATION @_{role}")).await;
        plain
    }
}

/// Checks that the server refuses this for lack of a privilege.
async fn check_denied(client: &Plain, sql: &str) {
    let Err(denied) = client.try_run(sql).await else { panic!("allowed: {sql}") };
    assert_eq!(denied.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{sql}: {denied:?}");
}

/// Checks the kind of an error, and that it contains this.
fn check_error(error: &StoreError, kind: StoreErrorKind, said: &str) {
    assert_eq!((error.kind(), error.advice()), (kind, RetryAdvice::Never), "{error}");
    assert!(error.to_string().contains(said), "{said:?} in {error}");
}

fn key(name: &str) -> RecordKey {
    RecordKey::new(name).unwrap()
}

fn put(name: &str) -> RecordWrite {
    RecordWrite::put(&key(name), ExpectedRevision::Any, RawJson::new(&1).unwrap())
}
