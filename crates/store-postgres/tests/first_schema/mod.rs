//! Upgrades: stores of the first schema version, with rows of every kind.

use tidelock_store::{
    Commit, CommitId, ExpectedRevision, ExpectedVersion, RawJson, RecordKey, RecordWrite, Slot,
    Store, StoreExt, Version,
};
use tidelock_store_postgres::PostgresStore;

use crate::ground::{Ground, Plain, committed, event, lease, soon, stream, wake};

const FIRST: &str = include_str!("../../migrations/0001_store.sql");
/// Its checksum in the list of migrations. A released script never changes.
const CHECKSUM: &str = "bfb47d62-72d7-5891-b1fa-417ba03e5a9f";

/// Tables of the first schema, as that version created them.
async fn make(ground: &Ground) -> Plain {
    let plain = ground.connect().await;
    plain
        .run(
            "CREATE SCHEMA @; CREATE TABLE tidelock.migrations (number integer PRIMARY KEY, name text NOT NULL,
                 checksum text NOT NULL, applied_at timestamptz NOT NULL)",
        )
        .await;
    plain.run(FIRST).await;
    plain
        .run(&format!("INSERT INTO tidelock.migrations VALUES (1, 'store', '{CHECKSUM}', now())"))
        .await;
    plain
}

/// Rows that that version wrote: two streams; live, expired and deleted records; items with and
/// without a lease; and a commit with an id.
const ROWS: &str = "SELECT tidelock.append_one('orders/1', -1, gen_random_uuid(), 'said', '\"first\"', '{}');
    SELECT tidelock.append_one('orders/1', 1, gen_random_uuid(), 'said', '\"second\"', '{}');
    INSERT INTO tidelock.streams (name, version, first, closed) VALUES ('closed', 3, 4, true);
    INSERT INTO tidelock.records VALUES ('live', 4, '1', NULL), ('expired', 5, '1', 1);
    INSERT INTO tidelock.records SELECT 'gone-' || n, 2 + n % 7, NULL, NULL FROM generate_series(1, 1200) n;
    INSERT INTO tidelock.items VALUES
        ('mail', 'idle', 'main', 0, 0, 0, NULL, NULL, NULL, 0, 0, 0, false, NULL, 6, NULL, NULL, NULL, 'ack');
    INSERT INTO tidelock.commits VALUES
        ('00000000-0000-7000-8000-000000000001', gen_random_uuid(), '{}', '{}', (SELECT moment FROM tidelock.last())),
        ('00000000-0000-7000-8000-000000000002', gen_random_uuid(), '{}', '{}', 0)";

fn key(name: &str) -> RecordKey {
    RecordKey::new(name).unwrap()
}

fn put(name: &str, expected: ExpectedRevision) -> Commit {
    Commit::new().write(RecordWrite::put(&key(name), expected, RawJson::new(&2).unwrap()))
}

/// Schedule 120; KEEP-1, LOG-2, REC-2 and LEASE-2: existing rows are kept, their numbers continue,
/// and old tombstones are removed.
pub(crate) async fn a_store_of_the_first_schema_goes_on() {
    let ground = Ground::shared();
    let plain = make(&ground).await;
    plain.run(ROWS).await;
    let store = ground.open_with(|options| options.sweep_interval = crate::ground::NEVER).await;
    check_numbers_go_on(&store).await;
    check_tombstones_leave(&store, &plain).await;
    assert_eq!(
        plain.one::<i64>("SELECT epoch FROM tidelock.meta").await,
        0,
        "the tables have not moved"
    );
}

async fn check_numbers_go_on(store: &PostgresStore) {
    let second = ExpectedVersion::Exact(Version::new(2).unwrap());
    let append = Commit::new().append(&stream("orders/1"), second, [event("third")]);
    assert_eq!(committed(store, append).await.appends[0].version.get(), 3);
    assert_eq!(store.read_whole_stream(&stream("orders/1")).await.unwrap().len(), 3);
    for (name, next) in [("live", 5), ("expired", 6), ("gone-1", 4), ("new", 1)] {
        let done =
            committed(store, put(name, ExpectedRevision::Any).with_id(CommitId::fresh())).await;
        assert_eq!(done.writes[0].revision.unwrap().get(), next, "{name}");
    }
    committed(store, wake("idle")).await;
    assert_eq!(lease(store, "w", 1).await[0].fence.get(), 7);
}

/// They are kept for an hour from the migration on, including those at the end of the scan.
async fn check_tombstones_leave(store: &PostgresStore, plain: &Plain) {
    let undated =
        "SELECT count(*) FROM tidelock.records WHERE value IS NULL AND expires_at IS NULL";
    assert_eq!(plain.one::<i64>(undated).await, 1199);
    store.sweep().await.unwrap();
    assert_eq!(plain.one::<i64>(undated).await, 0);
    assert!(plain.one::<bool>("SELECT undated_from IS NULL FROM tidelock.meta").await);
    assert_eq!(store.get_one(&key("gone-7")).await.unwrap().revision().unwrap().get(), 2);
    assert_eq!(
        plain.one::<i64>("SELECT count(*) FROM tidelock.commits WHERE forget_at IS NULL").await,
        1
    );

    plain.run("UPDATE tidelock.records SET expires_at = 1 WHERE value IS NULL").await;
    store.sweep().await.unwrap();
    assert_eq!(store.get_one(&key("gone-7")).await.unwrap(), Slot::Absent);
    let done = committed(store, put("gone-7", ExpectedRevision::Absent)).await;
    assert_eq!(done.writes[0].revision.unwrap().get(), 9, "above the highest that was forgotten");
}

/// Schedule 120: a program that was started before the migration continues with its statements, in
/// a role with its earlier rights; and what it does is not removed as expired.
pub(crate) async fn a_program_of_the_first_schema_works_on_the_next() {
    let ground = Ground::shared();
    let plain = make(&ground).await;
    plain.run(ROWS).await;
    plain.run(OLD_RIGHTS).await;
    let store = ground.open_with(|options| options.sweep_interval = crate::ground::NEVER).await;
    let old = ground.connect().await;
    old.run("SET ROLE @_old").await;
    for statement in OLD_STATEMENTS {
        old.run(statement).await;
    }
    // What a new program has finished, and an old one has woken or filled again, is kept.
    plain
        .run("UPDATE tidelock.items SET forget_at = 1; UPDATE tidelock.streams SET forget_at = 1")
        .await;
    store.sweep().await.unwrap();
    // The migration has added where the next one says what works with it.
    let works = "SELECT string_agg(coalesce(works_with::text, 'none'), ' ' ORDER BY number) FROM tidelock.migrations";
    assert_eq!(plain.one::<String>(works).await, "none 2");
    assert_eq!(plain.one::<i64>("SELECT count(*) FROM tidelock.items").await, 1);
    assert_eq!(
        plain.all::<String>("SELECT name FROM tidelock.streams ORDER BY 1").await,
        ["new", "orders/1"]
    );
}

/// Schedule 120: a transaction that holds one table and waits for another, which the migration
/// holds, while that waits for the first.
pub(crate) async fn a_migration_in_a_deadlock_with_a_program_at_work_is_made_again() {
    let ground = Ground::shared();
    let (old, holder, looker) =
        (make(&ground).await, ground.connect().await, ground.connect().await);
    // It never checks for a deadlock itself, so it is never the victim.
    old.run("SET deadlock_timeout = '1h'; BEGIN; SELECT FROM tidelock.commits").await;
    holder.run("BEGIN; SELECT FROM tidelock.streams").await;
    let opening = tokio::spawn({
        let ground = ground.clone();
        async move { ground.open_where("deadlock_timeout%3D10ms").await }
    });
    looker.until_blocked(1).await;
    let crossing = tokio::spawn(async move { old.run("SELECT FROM tidelock.items; COMMIT").await });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT FROM @.items; COMMIT%'
                 AND wait_event_type = 'Lock')";
    looker.until("the old program waits for the migration", waits).await;
    holder.run("COMMIT").await;
    soon("the old program", crossing).await.unwrap();
    let store = soon("the store", opening).await.unwrap();
    assert_eq!(looker.one::<i64>("SELECT count(*) FROM tidelock.migrations").await, 2);
    store.close().await.unwrap();
}

const OLD_RIGHTS: &str = "CREATE ROLE @_old;
    GRANT USAGE ON SCHEMA @ TO @_old;
    GRANT SELECT ON ALL TABLES IN SCHEMA @ TO @_old;
    GRANT SELECT, USAGE ON SEQUENCE tidelock.positions TO @_old;
    GRANT INSERT ON tidelock.events TO @_old;
    GRANT INSERT (name, version, closed), UPDATE (version, closed) ON tidelock.streams TO @_old;
    GRANT INSERT, UPDATE (revision, value, expires_at) ON tidelock.records TO @_old;
    GRANT INSERT, UPDATE (due, mark, ready) ON tidelock.items TO @_old;
    GRANT INSERT, DELETE, UPDATE (committed_at) ON tidelock.commits TO @_old;
    GRANT UPDATE (clock, shift) ON tidelock.meta TO @_old";

/// Each way in which that version writes.
const OLD_STATEMENTS: [&str; 7] = [
    "SELECT tidelock.append_one('new', 0, gen_random_uuid(), 'said', '1', '{}')",
    "SELECT tidelock.append_many('{new}', '{-1}', '{1}', '{1}', '{1}', '{new}', ARRAY[gen_random_uuid()], '{said}', '{1}', '{\"{}\"}',
        '{}', '{}', '{}')",
    "SELECT * FROM tidelock.write_many('{live,made}', '{0,0}', '{4,-3}', '{2,3}', '{NULL,NULL}', '{NULL,NULL}',
        '{0}', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()], '{x}')",
    "UPDATE tidelock.streams SET version = version + 1 WHERE name = 'orders/1'",
    "INSERT INTO tidelock.commits (id, fingerprint, committed, positions, committed_at)
        VALUES (gen_random_uuid(), gen_random_uuid(), '{}', '{}', 1)",
    "UPDATE tidelock.records SET value = NULL, expires_at = NULL WHERE key = 'expired'",
    "UPDATE tidelock.items SET due = 1, mark = 1, ready = 1 WHERE key = 'idle'",
];
