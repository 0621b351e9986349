//! Rows in the user's own tables, in the store's SQLite file. For PostgreSQL see also `processes`,
//! and the read model example.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use tidelock::prelude::*;
use tidelock::sqlite::{SqlStatement, SqliteOptions, SqliteStore};
use tidelock::store::StoredEvent;
use tidelock_test_stage::{Running, TestStore, brisk, for_real, note, text, until};

use crate::stage::until_quiet;

/// REACT-11. Two handles, like two processes; the first attempt of every other event fails after
/// its statements, and a primary key would refuse a duplicate row.
#[test]
fn rows_of_a_handler_are_there_exactly_once() {
    for_real(TestStore::sqlite(), async |stage| {
        let path = stage.url().unwrap().trim_start_matches("sqlite:").to_owned();
        let store = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        let tidelock = Tidelock::over(Arc::new(store.clone()));
        let plain = Connection::open(&path).unwrap();
        plain.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        plain
            .execute_batch("CREATE TABLE seen (event TEXT PRIMARY KEY, text TEXT NOT NULL)")
            .unwrap();

        let start = |name: &str, store: &SqliteStore| {
            let (tidelock, stumbled) =
                (Tidelock::over(Arc::new(store.clone())), Arc::new(AtomicBool::new(false)));
            let source = on_any().retry(
                Retry::attempts(11).backoff(Backoff::fixed(std::time::Duration::from_millis(1))),
            );
            Running::start(tidelock.app().worker(brisk(name)).reaction(
                "rows",
                source,
                move |event: StoredEvent, ctx: ReactionCtx| {
                    let stumbled = stumbled.clone();
                    async move {
                        let insert = SqlStatement::new("INSERT INTO seen VALUES (?1, ?2)");
                        let row = insert.with(event.id.to_string()).with(text(&event));
                        ctx.sqlite([row])?;
                        match stumbled.fetch_not(Ordering::SeqCst) {
                            true => Ok(()),
                            false => Err(HandlerError::again("stumbled")),
                        }
                    }
                },
            ))
        };
        let other = SqliteStore::open(&path, &SqliteOptions::default()).unwrap();
        let running = [start("one", &store), start("two", &other)];
        for nth in 0..20 {
            note(&tidelock, &format!("diary-{}", nth % 4), &nth.to_string()).await;
        }
        let rows = || {
            plain.query_row("SELECT count(*) FROM seen", [], |row| row.get::<_, i64>(0)).unwrap()
        };
        until("every event has its row", async || rows() == 20).await;
        until_quiet(&tidelock, "rows").await;
        assert_eq!(rows(), 20);
        for app in running {
            app.stop().await;
        }
    });
}

/// REACT-11, in batches: one statement and one transaction for many events, and a second attempt
/// after one that fails when its rows are written.
#[test]
fn rows_of_a_batch_are_there_exactly_once() {
    for_real(TestStore::postgres(), async |stage| {
        let url = stage.url().unwrap();
        let table = format!("{}_seen", url.rsplit('=').next().unwrap());
        let tidelock = Tidelock::open(&url).await.unwrap();
        let store = tidelock.postgres().unwrap().clone();
        let sql = store.begin().await.unwrap();
        sql.execute(&format!("CREATE TABLE {table} (event text PRIMARY KEY, batch bigint)"), &[])
            .await
            .unwrap();
        let never = tidelock::store::RecordKey::new("never").unwrap();
        let absent = tidelock::store::ExpectedRevision::Absent;
        let nothing = tidelock::store::Commit::new().guard_record(&never, absent);
        sql.commit(nothing).await.unwrap().committed().unwrap();
        for nth in 0..30 {
            note(&tidelock, &format!("diary-{}", nth % 2), &nth.to_string()).await;
        }
        let stumbled = Arc::new(AtomicBool::new(false));
        let source = on_any().retry(
            Retry::attempts(11).backoff(Backoff::fixed(std::time::Duration::from_millis(1))),
        );
        let insert =
            format!("INSERT INTO {table} SELECT event, $2 FROM unnest($1::text[]) AS e (event)");
        let app = tidelock.app().worker(brisk("w")).batch_reaction(
            "rows",
            source,
            100,
            move |events: Vec<StoredEvent>, ctx: ReactionCtx| {
                let (stumbled, insert) = (stumbled.clone(), insert.clone());
                async move {
                    let ids: Vec<String> =
                        events.iter().map(|event| event.id.to_string()).collect();
                    let own = ctx.postgres().await?;
                    own.execute(&insert, &[&ids, &(ids.len() as i64)]).await?;
                    match stumbled.fetch_not(Ordering::SeqCst) {
                        true => Ok(()),
                        false => Err(HandlerError::again("stumbled")),
                    }
                }
            },
        );
        let running = Running::start(app);
        let count = async |what: &str| -> i64 {
            let sql = store.begin().await.unwrap();
            let rows = sql.query(&format!("SELECT {what} FROM {table}"), &[]).await.unwrap();
            rows[0].get(0)
        };
        until("every event has its row", async || count("count(*)").await == 30).await;
        until_quiet(&tidelock, "rows").await;
        assert_eq!(count("count(*)").await, 30);
        assert!(count("coalesce(max(batch), 0)").await > 1, "many of them at once");
        running.stop().await;
    });
}
