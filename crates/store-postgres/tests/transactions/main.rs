//! User transactions: a user's rows and a commit to the store are committed together, or neither
//! is.
//!
//! [`whole`] is the normal course, [`again`] a commit that is made twice, [`crashes`] a process or
//! the server killed in between, [`leased`] a step that is done exactly once. In all of those the
//! store begins the transaction; in [`foreign`] the user does.

// Clippy lets tests unwrap, but does not see that a binary without the usual harness is one.
#![allow(clippy::unwrap_used)]

mod again;
mod crashes;
mod foreign;
#[path = "../ground/mod.rs"]
mod ground;
mod leased;
mod whole;
#[path = "../../../store-sqlite/tests/worker/mod.rs"]
mod worker;

use std::process::ExitCode;

use ground::{Ground, Plain};
use libtest_mimic::{Arguments, Trial};
use tidelock_store::{Commit, CommitOutcome, Result};
use tidelock_store_postgres::{PgTx, PostgresStore};
use worker::Part;

fn main() -> ExitCode {
    if let Some(part) = Part::to_play() {
        block_on(play(&part));
        return ExitCode::SUCCESS;
    }
    let trials = whole::trials()
        .into_iter()
        .chain(again::trials())
        .chain(crashes::trials())
        .chain(leased::trials())
        .chain(foreign::trials());
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

async fn play(part: &Part) {
    match part.role.as_str() {
        "clerk" => crashes::clerk(part).await,
        "worker" => leased::worker(part).await,
        "stranger" => foreign::stranger(part).await,
        role => panic!("there is no role {role:?}"),
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime starts").block_on(future)
}

/// Tests, each under its own name.
macro_rules! trials {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::trial(stringify!($name), $name)),*]
        }
    };
}
pub(crate) use trials;

fn trial<F: Future<Output = ()> + 'static>(name: &str, test: fn() -> F) -> Trial {
    Trial::test(name, move || {
        block_on(test());
        Ok(())
    })
}

/// A store, and a user's table beside it.
struct Shop {
    ground: Ground,
    plain: Plain,
    store: PostgresStore,
}

impl Shop {
    async fn new() -> Self {
        Self::on(Ground::shared()).await
    }

    async fn on(ground: Ground) -> Self {
        let plain = ground.connect().await;
        plain.run("CREATE TABLE @_sales (what text)").await;
        Self { store: ground.open().await, plain, ground }
    }

    /// The store's URL, for another process.
    fn url(&self) -> String {
        format!("{}?schema={1}&application_name={1}", self.ground.url, self.ground.schema)
    }

    /// Begins, and records a sale.
    async fn sell(&self) -> PgTx {
        sell(&self.store, self.ground.schema.as_str()).await
    }

    /// A sale and a commit.
    async fn sell_and(&self, commit: Commit) -> Result<CommitOutcome> {
        self.sell().await.commit(commit).await
    }

    /// How many sales and events others can see.
    async fn found(&self) -> (i64, i64) {
        let sales = self.plain.one("SELECT count(*) FROM @_sales").await;
        (sales, self.plain.one("SELECT count(*) FROM tidelock.events").await)
    }
}

async fn sell(store: &PostgresStore, schema: &str) -> PgTx {
    let own = store.begin().await.unwrap();
    let sql = format!("INSERT INTO {schema}_sales VALUES ($1)");
    assert_eq!(own.execute(&sql, &[&"tea"]).await.unwrap(), 1);
    own
}
