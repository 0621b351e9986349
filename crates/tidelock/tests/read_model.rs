//! The read model example, killed at the worst points.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

#[path = "../../store-postgres/tests/ground/mod.rs"]
mod ground;
#[allow(dead_code)] // its `main` reads the command line, which is ours here
#[path = "../examples/read_model.rs"]
mod read_model;

use std::env;
use std::process::{Child, Command, Stdio};

use ground::{Ground, Plain};
use serde_json::json;
use tidelock::prelude::*;
use tidelock::store::{NewEvent, Store, StoreExt, StreamName};

/// Set in the follower's process.
const URL: &str = "TIDELOCK_TEST_READ_MODEL_URL";

/// A follower in its own process; killed on drop.
struct Follower(Child);

impl Follower {
    /// Its table is in the store's schema, and its sessions have the schema's name.
    fn start(ground: &Ground) -> Self {
        let (url, schema) = (&ground.url, &ground.schema);
        let options = format!(
            "schema={schema}&application_name={schema}&options=-c%20search_path%3D{schema}"
        );
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "a_follower"]).env(URL, format!("{url}?{options}"));
        Self(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

/// The child process; does nothing by itself.
#[tokio::test]
async fn a_follower() {
    if let Ok(url) = env::var(URL) {
        read_model::follow(&url).await.unwrap();
    }
}

async fn sell(store: &impl Store, units: i64) {
    let sale = NewEvent::of("sold", &json!({ "product": "tea", "units": units })).unwrap();
    let tea = StreamName::new("product-tea").unwrap();
    store.append(&tea, ExpectedVersion::Any, vec![sale]).await.unwrap().committed().unwrap();
}

async fn until_counted(plain: &Plain, units: i64) {
    let sql = format!(
        "SELECT coalesce(sum(units) = {units}, false) FROM tidelock.totals WHERE product = 'tea'"
    );
    plain.until(&format!("{units} are counted"), &sql).await;
}

/// COMMIT-1, with the user's own table.
#[tokio::test]
async fn a_read_model_killed_between_its_rows_and_its_cursor_counts_every_event_once() {
    let ground = Ground::shared();
    let (store, plain) = (ground.open().await, ground.connect().await);
    let mut follower = Follower::start(&ground);
    plain.until("the model has begun", "SELECT to_regclass('tidelock.totals') IS NOT NULL").await;
    sell(&store, 2).await;
    until_counted(&plain, 2).await;

    // It writes its rows, and then waits for the cursor.
    let obstacle = ground.connect().await;
    obstacle
        .run("BEGIN; SELECT FROM tidelock.records WHERE key = 'read-model/totals' FOR UPDATE")
        .await;
    sell(&store, 3).await;
    plain.until_blocked(1).await;
    follower.kill();
    obstacle.run("ROLLBACK").await;
    plain.until_none_is_open().await;
    until_counted(&plain, 2).await;

    let _followers = [Follower::start(&ground), Follower::start(&ground)];
    until_counted(&plain, 5).await;
    sell(&store, 4).await;
    until_counted(&plain, 9).await;
}
