//! Rows in the user's own tables, in the store's SQLite file. (For PostgreSQL see `processes`, and
//! the read model example.)

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
            Running::start(tidelock.app().worker(brisk(name)).in_sqlite(
                "rows",
                source,
                store,
                move |event: StoredEvent, _| {
                    let stumbled = stumbled.clone();
                    async move {
                        let insert = SqlStatement::new("INSERT INTO seen VALUES (?1, ?2)");
                        let row = insert.with(event.id.to_string()).with(text(&event));
                        if !stumbled.fetch_not(Ordering::SeqCst) {
                            return Err(HandlerError::again("stumbled"));
                        }
                        Ok(vec![row])
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
