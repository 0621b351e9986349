//! Stores with a history, on which the tests run once more, so that no feature is tested on new
//! stores only.
//!
//! Such a store was created at schema 1, migrated to the newest, had the export of another
//! imported, and was opened again. It contains traces of earlier use: closed and trimmed streams,
//! ended runs, finished items, deleted records. No work is pending, so the doctor finds a healthy
//! store.
//!
//! The command `tidelock-test-past` makes one of each kind in a folder and names the folder in an
//! environment variable; every store that a test is given is then a copy.

mod leave;
mod make;

use std::path::{Path, PathBuf};
use std::{env, fs};

pub use leave::leave;
pub use make::make;

/// The variable that names the folder.
pub const PAST: &str = "TIDELOCK_TEST_PAST";

/// The SQLite file in the folder.
const FILE: &str = "store.db";
/// The PostgreSQL schema in the folder, as statements.
const DUMP: &str = "store.sql";

/// The name prefixes of all traces.
const NAMES: [&str; 2] = ["old", "moved"];

/// Whether this name is a trace, and not a test's.
pub fn left(name: &str) -> bool {
    let is_past = |part: &str| NAMES.iter().any(|past| part.split('-').next() == Some(past));
    name.split('/').any(is_past)
}

/// Whether this item, as the command and the HTTP API show it, is a trace, and not a test's.
pub fn left_item(item: &serde_json::Value) -> bool {
    ["queue", "key"].into_iter().filter_map(|part| item[part].as_str()).any(left)
}

fn folder() -> Option<PathBuf> {
    env::var_os(PAST).map(PathBuf::from)
}

/// Puts a store with a history at this path, if the tests run on such; otherwise nothing.
pub fn lay_file(path: &Path) {
    if let Some(folder) = folder() {
        fs::copy(folder.join(FILE), path).unwrap();
    }
}

/// Puts a store with a history into this schema of a database, if the tests run on such; otherwise
/// nothing.
///
/// The tables are not the copied ones, so the next handle begins an epoch, as after a restart.
pub fn lay_schema(database: &str, schema: &str) {
    if let Some(folder) = folder() {
        let dump =
            fs::read_to_string(folder.join(DUMP)).expect("the command was run beside a server");
        let dump =
            dump.replace("\"tidelock\".", "tidelock.").replace("tidelock.", &format!("{schema}."));
        let dump = dump.replace("SCHEMA tidelock;", &format!("SCHEMA {schema};"));
        tidelock_test_postgres::run_script(database, &dump).unwrap();
    }
}
