//! Positive controls: the same schedules where positions come from a sequence.

use crate::ground::{Ground, Plain};

/// A naive table, designed without readers in mind, and three connections to it.
struct Naive {
    first: Plain,
    second: Plain,
    reader: Plain,
}

impl Naive {
    async fn new() -> Self {
        let ground = Ground::shared();
        let reader = ground.connect().await;
        reader
            .run(
                "CREATE SCHEMA @;
                 CREATE TABLE tidelock.naive
                    (position bigserial PRIMARY KEY, xid xid8 NOT NULL DEFAULT pg_current_xact_id(), said text)",
            )
            .await;
        Self { first: ground.connect().await, second: ground.connect().await, reader }
    }

    /// What a reader at this position finds.
    async fn after(&self, position: i64) -> Vec<String> {
        let sql = format!(
            "SELECT said FROM tidelock.naive WHERE position > {position} ORDER BY position"
        );
        self.reader.all(&sql).await
    }

    /// What a reader at this position finds that stays below open transactions.
    async fn settled_after(&self, position: i64) -> Vec<String> {
        self.reader.all(&settled(&format!("position > {position}"))).await
    }
}

fn settled(which: &str) -> String {
    let horizon = "pg_snapshot_xmin(pg_current_snapshot())";
    format!("SELECT said FROM tidelock.naive WHERE {which} AND xid < {horizon} ORDER BY position")
}

fn says(text: &str) -> String {
    format!("INSERT INTO tidelock.naive (said) VALUES ('{text}')")
}

/// Schedule 1, control.
#[tokio::test]
async fn a_reader_of_a_sequence_loses_what_commits_late() {
    let naive = Naive::new().await;
    naive.first.run(&format!("BEGIN; {}", says("late"))).await;
    naive.second.run(&says("early")).await;
    assert_eq!(naive.after(0).await, ["early"]);
    naive.first.run("COMMIT").await;
    assert!(naive.after(2).await.is_empty(), "the late one has position 1, and is lost");
}

/// Schedule 2, control.
#[tokio::test]
async fn a_reader_below_the_horizon_loses_what_a_younger_transaction_numbered_first() {
    let naive = Naive::new().await;
    naive.first.run("BEGIN; SELECT pg_current_xact_id()").await;
    naive.second.run(&format!("BEGIN; {}", says("lost"))).await;
    naive.first.run(&format!("{}; COMMIT", says("seen"))).await;
    let seen = format!("SELECT EXISTS ({})", settled("said = 'seen'"));
    naive.reader.until("no older transaction is open on the server", &seen).await;
    assert_eq!(naive.settled_after(0).await, ["seen"]);
    naive.second.run("COMMIT").await;
    assert_eq!(naive.after(0).await, ["lost", "seen"]);
    assert!(naive.after(2).await.is_empty(), "the reader is at 2, and does not go back");
}

/// Schedule 3, control.
#[tokio::test]
async fn a_reader_below_the_horizon_stands_still_during_any_write() {
    let naive = Naive::new().await;
    naive.first.run("BEGIN; SELECT pg_current_xact_id()").await;
    naive.second.run(&says("there")).await;
    assert!(naive.settled_after(0).await.is_empty());
    naive.first.run("ROLLBACK").await;
}

/// Schedule 4, control.
#[tokio::test]
async fn a_reader_that_waits_for_every_number_never_ends_after_a_rollback() {
    let naive = Naive::new().await;
    naive.first.run(&format!("BEGIN; {}; ROLLBACK", says("undone"))).await;
    naive.second.run(&says("there")).await;
    let next: bool =
        naive.reader.one("SELECT EXISTS (SELECT FROM tidelock.naive WHERE position = 1)").await;
    assert!(!next, "a sequence gives nothing back");
    assert_eq!(naive.after(0).await, ["there"]);
}
