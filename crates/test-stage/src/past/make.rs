//! Makes stores with a history: from dumps of schema 1, by the commands of an operator.

use std::path::Path;
use std::process::Command;

use rusqlite::Connection;

use super::{DUMP, FILE};

/// A file at schema 1, after [`leave`](super::leave): `sqlite3 FILE .dump`.
const SQLITE_1: &str = include_str!("../../fixtures/sqlite-1.sql");
/// A schema at schema 1, after [`leave`](super::leave): `pg_dump --schema tidelock --no-owner`,
/// without its settings.
const POSTGRES_1: &str = include_str!("../../fixtures/postgres-1.sql");

/// Makes a file, and a dump of a schema if there is a shared server. `command` is the `tidelock`
/// command.
pub fn make(folder: &Path, command: &Path) {
    let export = export(folder, command);
    let file = folder.join(FILE);
    Connection::open(&file).unwrap().execute_batch(SQLITE_1).unwrap();
    renew(command, &format!("sqlite:{}", file.display()), &export);
    if std::env::var_os(tidelock_test_postgres::SHARED_URL).is_some() {
        let database = tidelock_test_postgres::shared_database().unwrap();
        tidelock_test_postgres::run_script(&database, POSTGRES_1).unwrap();
        renew(command, &database, &export);
        let dump = tidelock_test_postgres::dump(&database, "tidelock").unwrap();
        std::fs::write(folder.join(DUMP), dump).unwrap();
    }
}

/// The export of a store at the newest schema.
fn export(folder: &Path, command: &Path) -> String {
    let url = format!("sqlite:{}", folder.join("moved.db").display());
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = tidelock::open(&url).await.unwrap();
        super::leave(&store, "moved").await;
        store.close().await.unwrap();
    });
    let export = folder.join("moved.jsonl").display().to_string();
    run(command, &["export", &export, "--store", &url]);
    export
}

/// Migrates a store, imports the export, and opens it again: each in its own process.
fn renew(command: &Path, url: &str, export: &str) {
    run(command, &["migrate", "--store", url]);
    run(command, &["import", export, "--reactions", "continue", "--store", url]);
    run(command, &["doctor", "--store", url]);
}

fn run(command: &Path, args: &[&str]) {
    let output = Command::new(command)
        .args(args)
        .env_remove("TIDELOCK_STORE")
        .env_remove("DATABASE_URL")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {}{said}", String::from_utf8_lossy(&output.stdout));
}
