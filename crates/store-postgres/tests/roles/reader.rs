//! The reader's role sees everything and changes nothing.

use std::fmt::Debug;
use std::time::Duration;

use tidelock_store::{
    Adjustment, Commit, HeadQuery, ItemFilter, ItemQuery, LeaseRequest, Position, RecordQuery,
    Result, Store, StoreErrorKind, StoreExt, Wake, When, WorkerName,
};
use tidelock_store_postgres::Blockers;

use crate::ground::{append, committed, feed_after, item, lease, queue, stream};
use crate::{Shop, check_denied, check_error, key, put};

/// A shop with one of everything.
async fn filled() -> Shop {
    let shop = Shop::new().await;
    let all = append("a", "only").write(put("a")).wake(Wake::at(item("a"), When::NOW));
    committed(&shop.open("app").await, all).await;
    shop
}

#[tokio::test]
async fn the_reader_reads_everything() {
    let store = filled().await.open("reader").await;
    assert_eq!(store.read_whole_stream(&stream("a")).await.unwrap().len(), 1);
    assert_eq!(feed_after(&store, Position::START).await.len(), 1);
    assert_eq!(store.heads(HeadQuery::prefix("")).await.unwrap().heads.len(), 1);
    assert!(store.get_one(&key("a")).await.unwrap().live().is_some());
    assert_eq!(store.scan(RecordQuery::prefix("")).await.unwrap().records.len(), 1);
    assert_eq!(store.items(ItemQuery::new(ItemFilter::default())).await.unwrap().items.len(), 1);
    assert_eq!(store.blockers().await.unwrap(), Blockers::default());
    store.now().await.unwrap();
}

/// COMMIT-6: a retry is pointless, and the error says so.
#[tokio::test]
async fn the_reader_writes_nothing_and_is_told_why() {
    let shop = filled().await;
    let held = lease(&shop.open("app").await, "worker", 1).await.remove(0);
    let store = shop.open("reader").await;
    check_refused(store.commit(append("b", "alone")).await);
    check_refused(store.commit(append("b", "beside").write(put("b"))).await);
    check_refused(store.commit(Commit::new().settle(held.ack())).await);
    check_refused(store.renew(&[held.token()], Duration::from_secs(1)).await);
    check_refused(
        store.adjust(ItemFilter::default(), Adjustment::Defer { until: When::NOW }).await,
    );
    check_refused(store.begin().await.unwrap().commit(append("b", "in a user transaction")).await);
    shop.admin.run("UPDATE tidelock.items SET ready = 0").await;
    let worker = WorkerName::new("reader").unwrap();
    check_refused(
        store.lease(LeaseRequest::new(&queue(), &worker, Duration::from_secs(1), 1)).await,
    );
    assert_eq!(store.heads(HeadQuery::prefix("")).await.unwrap().heads.len(), 1);
}

fn check_refused<T: Debug>(answer: Result<T>) {
    let refused = answer.expect_err("a reader does not write");
    check_error(&refused, StoreErrorKind::Storage, "the database role may not do this");
}

#[tokio::test]
async fn the_server_grants_the_reader_no_right_to_write() {
    let shop = filled().await;
    let writable =
        "SELECT count(*) FROM pg_class WHERE relnamespace = '@'::regnamespace AND relkind = 'r'
         AND (has_any_column_privilege('@_reader', oid, 'INSERT, UPDATE')
              OR has_table_privilege('@_reader', oid, 'DELETE, TRUNCATE, REFERENCES, TRIGGER'))";
    assert_eq!(shop.admin.one::<i64>(writable).await, 0);
    let reader = shop.connect("reader").await;
    for sql in [
        "SELECT tidelock.trim('a', 1)",
        "SELECT tidelock.let_go('{a}', '{}')",
        "SELECT tidelock.append_one('a', -1, gen_random_uuid(), 'said', '1', '{}')",
        "SELECT tidelock.begin_epoch(0)",
        "SELECT tidelock.forget_records(1)",
        "SELECT tidelock.forget_items(1)",
        "SELECT tidelock.forget_streams(1)",
        "SELECT tidelock.forget_commits(1)",
        "SELECT tidelock.date_tombstones(1)",
        "SELECT nextval('tidelock.positions')",
        "SELECT setval('tidelock.positions', 1)",
        "DELETE FROM tidelock.commits",
    ] {
        check_denied(&reader, sql).await;
    }
}

/// Writers correct it; a reader does not wait for them.
#[tokio::test]
async fn the_reader_goes_on_when_the_database_has_moved_or_its_calendar_was_set_back() {
    let shop = filled().await;
    let store = shop.open("reader").await;
    store.now().await.unwrap();
    shop.set_calendar_back().await;
    store.now().await.unwrap();
    shop.admin.run("UPDATE tidelock.epochs SET home = 'elsewhere'").await;
    let again = shop.open("reader").await;
    assert_eq!(again.read_whole_stream(&stream("a")).await.unwrap().len(), 1);
}
