//! Cost tests, counted in steps of SQLite's virtual machine and not in time: rows that are idle,
//! due later, or on an earlier page must not be scanned.
//!
//! Such a scan does not show in a query plan: SQLite uses the right index and begins in the wrong
//! place.

#![cfg(test)]

use std::time::Duration;

use rusqlite::{Connection, StatementStatus};
use tidelock_store::plan::FairShare;
use tidelock_store::{
    Commit, HeadQuery, ItemFilter, ItemQuery, ItemRef, LeaseRequest, NewEvent, QueueName,
    RecordKey, RecordQuery, RecordWrite, StreamName, Timestamp, Wake, When, WorkerName, limits,
};

use crate::commit::{FLOORS, Transaction, WriterCache, commit};
use crate::reader::{Names, Reader};
use crate::{leases, log, migrate, records, sweep};

fn now() -> Timestamp {
    Timestamp::from_micros(1_000_000).unwrap()
}

fn store() -> Connection {
    let mut connection = Connection::open_in_memory().unwrap();
    connection.set_prepared_statement_cache_capacity(64);
    migrate::migrate(&mut connection, now()).unwrap();
    connection
}

fn write(connection: &Connection, write: &Commit) {
    let mut cache = WriterCache::default();
    let mut transaction = Transaction { connection, cache: &mut cache, now: now(), topics: None };
    commit(&mut transaction, write).unwrap().committed().unwrap();
}

/// Counts the steps of `act` on a connection where it ran once before.
fn steps(connection: &mut Connection, sql: &[&str], act: impl Fn(&mut Connection)) -> i32 {
    act(connection);
    let count = |connection: &Connection| {
        let status = |sql: &&str| {
            connection.prepare_cached(sql).unwrap().reset_status(StatementStatus::VmStep)
        };
        sql.iter().map(status).sum::<i32>()
    };
    count(connection);
    act(connection);
    count(connection)
}

fn lease_steps(later: usize) -> i32 {
    let mut connection = store();
    for number in 0..later {
        let item = ItemRef::parse("q", &format!("{number:05}")).unwrap();
        write(
            &connection,
            &Commit::new().wake(Wake::at(item, When::In(Duration::from_secs(3600)))),
        );
    }
    let worker = WorkerName::new("w").unwrap();
    let request =
        LeaseRequest::new(&QueueName::new("q").unwrap(), &worker, Duration::from_secs(1), 10);
    steps(&mut connection, leases::LOOKUPS, |connection| {
        assert_eq!(
            leases::lease(connection, &request, &FairShare::default(), now(), 0).unwrap().leases,
            []
        );
    })
}

#[test]
fn leasing_does_not_walk_through_what_is_due_later() {
    assert_eq!(lease_steps(10), lease_steps(2_000));
}

fn list_steps(idle: usize, filter: &ItemFilter) -> i32 {
    let mut connection = store();
    for number in 0..=idle {
        let item = ItemRef::parse("q", &format!("{number:05}")).unwrap();
        write(
            &connection,
            &Commit::new().wake(Wake::at(item, When::In(Duration::from_secs(3600)))),
        );
    }
    let last = "UPDATE tidelock_items SET blocked = 1, worker = 'w', since = 1, deadline = 2, fence = 1 WHERE key = ?1";
    connection.execute(last, [format!("{idle:05}")]).unwrap();
    let query = ItemQuery::new(filter.clone());
    steps(&mut connection, &[leases::listing(filter)], |connection| {
        assert_eq!(leases::page(connection, &query).unwrap().items.len(), 1);
    })
}

#[test]
fn what_is_blocked_or_held_is_not_looked_for_among_the_rest() {
    for filter in [ItemFilter::default().blocked(true), ItemFilter::default().held(true)] {
        assert_eq!(list_steps(10, &filter), list_steps(2_000, &filter));
    }
}

fn page_steps(before: usize) -> (i32, i32) {
    let connection = store();
    let name = |number| format!("n-{number:05}");
    for number in 0..=before {
        let stream = StreamName::new(name(number)).unwrap();
        let key = RecordKey::new(name(number)).unwrap();
        let event = NewEvent::of("noted", &1).unwrap();
        let expected = tidelock_store::ExpectedVersion::NoStream;
        let put = RecordWrite::put(
            &key,
            tidelock_store::ExpectedRevision::Absent,
            tidelock_store::RawJson::new(&1).unwrap(),
        );
        write(&connection, &Commit::new().append(&stream, expected, [event]).write(put));
    }
    let last = name(before - 1);
    let mut reader = Reader { connection, names: Names::default() };
    let heads = HeadQuery::Prefix {
        prefix: "n-".into(),
        after: Some(StreamName::new(last.clone()).unwrap()),
        limit: limits::PAGE_SIZE,
    };
    let query = RecordQuery::prefix("n-").after(RecordKey::new(last).unwrap());
    let run = |reader: &mut Reader| {
        assert_eq!(log::heads(reader, heads.clone()).unwrap().heads.len(), 1);
        assert_eq!(records::scan(reader, &query, now()).unwrap().records.len(), 1);
    };
    run(&mut reader);
    let count = |reader: &Reader, sql| {
        reader.connection.prepare_cached(sql).unwrap().reset_status(StatementStatus::VmStep)
    };
    (count(&reader, log::NAMES_AFTER), count(&reader, records::SCAN))
}

#[test]
fn a_page_does_not_walk_through_the_pages_before_it() {
    assert_eq!(page_steps(10), page_steps(1_000));
}

/// Steps of a sweep that removes one row of each kind beside `staying` rows that stay.
fn sweep_steps(staying: usize) -> i32 {
    let mut connection = store();
    for number in 0..staying + 3 {
        let name = format!("n-{number:05}");
        let put = RecordWrite::put(
            &RecordKey::new(name.clone()).unwrap(),
            tidelock_store::ExpectedRevision::Absent,
            tidelock_store::RawJson::new(&1).unwrap(),
        );
        let made = Commit::new()
            .with_id(tidelock_store::CommitId::fresh())
            .write(put.expiring(When::In(Duration::from_secs(3600))))
            .wake(Wake::at(ItemRef::parse("q", &name).unwrap(), When::NOW));
        write(&connection, &made);
        let sql = "INSERT INTO tidelock_streams (name, version, first, closed, forget_at) VALUES (?1, 1, 2, 0, 9000000000)";
        connection.execute(sql, [name]).unwrap();
    }
    let due = "UPDATE tidelock_records SET value = NULL, expires_at = 1 WHERE rowid <= 3;
               UPDATE tidelock_items SET due = NULL, ready = NULL, forget_at = 9000000000;
               UPDATE tidelock_items SET forget_at = 1 WHERE key < 'n-00003';
               UPDATE tidelock_streams SET forget_at = 1 WHERE id <= 3;
               UPDATE tidelock_commits SET forget_at = 1 WHERE id IN (SELECT id FROM tidelock_commits LIMIT 3);";
    connection.execute_batch(due).unwrap();
    steps(&mut connection, sweep::STATEMENTS, |connection| {
        assert!(sweep::is_due(connection, now()).unwrap());
        let mut cache = WriterCache::default();
        assert!(
            Transaction { connection, cache: &mut cache, now: now(), topics: None }
                .sweep(1)
                .unwrap()
        );
    })
}

/// KEEP-1, KEEP-2, KEEP-3, KEEP-4.
#[test]
fn sweeping_does_not_look_at_what_stays() {
    assert_eq!(sweep_steps(10), sweep_steps(2_000));
}

/// Steps of checking whether anything is due, when nothing is, and of the sweep that finds nothing.
fn idle_steps(staying: usize) -> i32 {
    let mut connection = store();
    for number in 0..staying {
        let key = RecordKey::new(format!("n-{number:05}")).unwrap();
        let value = tidelock_store::RawJson::new(&1).unwrap();
        let put = RecordWrite::put(&key, tidelock_store::ExpectedRevision::Absent, value);
        write(&connection, &Commit::new().with_id(tidelock_store::CommitId::fresh()).write(put));
    }
    steps(&mut connection, sweep::STATEMENTS, |connection| {
        assert!(!sweep::is_due(connection, now()).unwrap());
        let mut cache = WriterCache::default();
        assert!(
            !Transaction { connection, cache: &mut cache, now: now(), topics: None }
                .sweep(100)
                .unwrap()
        );
    })
}

#[test]
fn nothing_is_looked_through_when_nothing_is_due() {
    assert_eq!(idle_steps(10), idle_steps(2_000));
}

#[test]
fn floors_are_read_once_and_not_with_every_commit() {
    let connection = store();
    let mut cache = WriterCache::default();
    let mut put = || {
        let (key, value) =
            (RecordKey::new("k").unwrap(), tidelock_store::RawJson::new(&1).unwrap());
        let write = Commit::new().write(RecordWrite::put(
            &key,
            tidelock_store::ExpectedRevision::Any,
            value,
        ));
        let mut transaction =
            Transaction { connection: &connection, cache: &mut cache, now: now(), topics: None };
        commit(&mut transaction, &write).unwrap().committed().unwrap();
        connection.prepare_cached(FLOORS).unwrap().reset_status(StatementStatus::VmStep)
    };
    assert!(put() > 0);
    assert_eq!((put(), put()), (0, 0));
}
