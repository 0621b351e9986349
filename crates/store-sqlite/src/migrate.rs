//! Schema migrations.
//!
//! Each migration is one SQL script with a number and a checksum. It is applied in one transaction
//! together with the row that records it. Two processes that open a new file at once take turns,
//! and the second finds it done.
//!
//! A file from a newer version is used if all that was added since works with this version, as the
//! rows of its migrations say (expand and contract); else, and if its migrations are not these, it
//! is refused unchanged.

use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation, Timestamp};
use uuid::Uuid;

use crate::error::failed;

struct Migration {
    number: i64,
    name: &'static str,
    sql: &'static str,
    /// The oldest version of the schema whose programs also work on this one. A migration that only
    /// adds keeps that of the one before; one that takes something away raises it.
    works_with: usize,
}

const MIGRATIONS: &[Migration] = &[
    Migration {
        number: 1,
        name: "store",
        sql: include_str!("../migrations/0001_store.sql"),
        works_with: 1,
    },
    Migration {
        number: 2,
        name: "retention",
        sql: include_str!("../migrations/0002_retention.sql"),
        works_with: 2,
    },
];

const CREATE: &str = "
CREATE TABLE IF NOT EXISTS tidelock_migrations (
    number     INTEGER PRIMARY KEY,
    name       TEXT    NOT NULL,
    checksum   TEXT    NOT NULL,
    applied_at INTEGER NOT NULL,
    works_with INTEGER
) STRICT";
/// Files that an earlier version made have no such column.
const KNOWS_WHAT_WORKS: &str =
    "SELECT 1 FROM pragma_table_info('tidelock_migrations') WHERE name = 'works_with'";
const ADD_WHAT_WORKS: &str = "ALTER TABLE tidelock_migrations ADD COLUMN works_with INTEGER";

/// The number of migrations of a file that this version uses.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// Refuses a file that is not up to date, without changing it.
pub(crate) fn check_applied(connection: &Connection) -> Result<()> {
    match applied(connection)? {
        n if n >= MIGRATIONS.len() => Ok(()),
        0 => Err(incompatible(
            "the file is no Tidelock store, and migrate=0 was asked for".to_owned(),
        )),
        n => Err(incompatible(format!(
            "the file has {n} of {} migrations, and migrate=0 was asked for: open it once without",
            MIGRATIONS.len()
        ))),
    }
}

/// The number of applied migrations; refuses a file that is no store at all.
pub(crate) fn applied_some(connection: &Connection) -> Result<usize> {
    match applied(connection)? {
        0 => Err(incompatible("the file is no Tidelock store".to_owned())),
        n => Ok(n),
    }
}

pub(crate) fn migrate(connection: &mut Connection, now: Timestamp) -> Result<()> {
    // Most files are up to date; this check takes no lock.
    if applied(connection)? >= MIGRATIONS.len() {
        return Ok(());
    }
    let transaction =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    transaction.execute(CREATE, []).map_err(failed)?;
    if !knows_what_works(&transaction)? {
        transaction.execute(ADD_WHAT_WORKS, []).map_err(failed)?;
    }
    // Another process may have been here meanwhile, also one of a newer version.
    for migration in MIGRATIONS.iter().skip(applied(&transaction)?) {
        transaction.execute_batch(migration.sql).map_err(failed)?;
        let insert =
            "INSERT INTO tidelock_migrations (number, name, checksum, applied_at, works_with)
            VALUES (?1, ?2, ?3, ?4, ?5)";
        let Migration { number, name, sql, works_with } = migration;
        let row = params![number, name, checksum(sql), now.micros(), *works_with as i64];
        transaction.execute(insert, row).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}

fn knows_what_works(connection: &Connection) -> Result<bool> {
    let found = connection.query_row(KNOWS_WHAT_WORKS, [], |_| Ok(())).optional();
    found.map(|row| row.is_some()).map_err(failed)
}

/// The number of applied migrations; refuses the file if they are not ours, or are newer and do
/// not work with this version.
fn applied(connection: &Connection) -> Result<usize> {
    let table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'tidelock_migrations'";
    if connection.query_row(table, [], |_| Ok(())).optional().map_err(failed)?.is_none() {
        return Ok(0);
    }
    let works_with = if knows_what_works(connection)? { "works_with" } else { "NULL" };
    let sql = format!(
        "SELECT number, name, checksum, {works_with} FROM tidelock_migrations ORDER BY number"
    );
    let mut statement = connection.prepare(&sql).map_err(failed)?;
    let rows = statement.query_map([], |row| {
        let works_with = row.get::<_, Option<i64>>(3)?;
        Ok(Applied { number: row.get(0)?, name: row.get(1)?, checksum: row.get(2)?, works_with })
    });
    let rows = rows.and_then(Iterator::collect::<rusqlite::Result<Vec<_>>>).map_err(failed)?;
    for (at, applied) in rows.iter().enumerate() {
        check(MIGRATIONS.get(at), applied)?;
    }
    Ok(rows.len())
}

/// A migration as its row tells it.
struct Applied {
    number: i64,
    name: String,
    checksum: String,
    works_with: Option<i64>,
}

impl Applied {
    fn works_with_this_version(&self) -> bool {
        self.works_with.is_some_and(|oldest| oldest <= MIGRATIONS.len() as i64)
    }
}

fn check(known: Option<&Migration>, applied: &Applied) -> Result<()> {
    let Applied { number, name, checksum: sum, .. } = applied;
    match known {
        Some(known) if known.number == *number && checksum(known.sql) == *sum => Ok(()),
        None if applied.works_with_this_version() => Ok(()),
        None if *number > MIGRATIONS.len() as i64 => Err(incompatible(format!(
            "the file was written by a newer version of Tidelock (it has migration {number}, {name:?}; this version \
             knows {}): upgrade this program",
            MIGRATIONS.len()
        ))),
        _ => Err(incompatible(format!(
            "migration {number} ({name:?}) of the file is not the one that this version of Tidelock knows: the file \
             was changed by something else, or by an unreleased version"
        ))),
    }
}

fn incompatible(context: String) -> StoreError {
    StoreError::new(StoreErrorKind::Incompatible, RetryAdvice::Never, StoreOperation::Open, context)
}

fn checksum(sql: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, sql.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_micros(0).unwrap()
    }

    #[test]
    fn migrating_twice_is_migrating_once() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, now()).unwrap();
        migrate(&mut connection, now()).unwrap();
        assert_eq!(applied(&connection).unwrap(), MIGRATIONS.len());
    }

    #[test]
    fn a_file_from_a_newer_version_is_refused() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, now()).unwrap();
        connection
            .execute(
                "INSERT INTO tidelock_migrations VALUES (99, 'from the future', 'x', 0, NULL)",
                [],
            )
            .unwrap();
        let refused = migrate(&mut connection, now()).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Incompatible);
        assert!(refused.to_string().contains("newer version of Tidelock"), "{refused}");
    }

    /// Schedule 120: each migration that was added since has to say so.
    #[test]
    fn a_file_from_a_newer_version_is_used_if_all_of_it_works_with_this_one() {
        let own = MIGRATIONS.len();
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, now()).unwrap();
        let mut add = |number: usize, works_with: usize| {
            let row = format!("({number}, 'next', 'x', 0, {works_with})");
            let insert = format!("INSERT INTO tidelock_migrations VALUES {row}");
            connection.execute(&insert, []).unwrap();
            (check_applied(&connection), migrate(&mut connection, now()))
        };
        let (checked, migrated) = add(own + 1, own);
        checked.unwrap();
        migrated.unwrap();
        let (checked, migrated) = add(own + 2, own + 1);
        for refused in [checked.unwrap_err(), migrated.unwrap_err()] {
            let said = format!("it has migration {}", own + 2);
            assert!(refused.to_string().contains(&said), "{refused}");
        }
    }

    /// A file that was made before the column existed gets it with its next migration.
    #[test]
    fn a_file_without_the_column_is_read_and_gets_it_when_it_is_migrated() {
        let mut connection = first_version();
        connection.execute("ALTER TABLE tidelock_migrations DROP COLUMN works_with", []).unwrap();
        assert_eq!(applied(&connection).unwrap(), 1);
        migrate(&mut connection, now()).unwrap();
        let sql = "SELECT group_concat(coalesce(works_with, 'none'), ' ') FROM tidelock_migrations";
        let told: String = connection.query_row(sql, [], |row| row.get(0)).unwrap();
        assert_eq!(told, "none 2");
    }

    #[test]
    fn what_works_is_never_lowered_and_never_beyond_its_own_number() {
        let works: Vec<_> = MIGRATIONS.iter().map(|migration| migration.works_with).collect();
        assert!(works.is_sorted(), "{works:?}");
        assert!(MIGRATIONS.iter().all(|it| (1..=it.number).contains(&(it.works_with as i64))));
    }

    #[test]
    fn a_file_that_is_not_up_to_date_can_be_refused_instead() {
        let mut connection = Connection::open_in_memory().unwrap();
        let refused = check_applied(&connection).unwrap_err();
        assert!(refused.to_string().contains("no Tidelock store"), "{refused}");
        migrate(&mut connection, now()).unwrap();
        check_applied(&connection).unwrap();
    }

    /// CMD-14: before an upgrade, with the new program.
    #[test]
    fn a_file_that_is_not_up_to_date_is_backed_up_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let [old, copy] = ["old.db", "copy.db"].map(|name| folder.path().join(name));
        first_version().execute("VACUUM INTO ?1", [old.to_str()]).unwrap();
        let options = crate::SqliteOptions::default();
        let backup = crate::SqliteStore::back_up_file(&old, &copy, &options).unwrap();
        assert_eq!((backup.schema, backup.events), (1, 0));
        assert_eq!(applied(&Connection::open(&copy).unwrap()).unwrap(), 1);
    }

    #[test]
    fn a_migration_that_was_changed_is_noticed() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, now()).unwrap();
        connection
            .execute("UPDATE tidelock_migrations SET checksum = 'other' WHERE number = 1", [])
            .unwrap();
        let refused = migrate(&mut connection, now()).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Incompatible);
    }

    /// A file created by the first version.
    fn first_version() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        let first = &MIGRATIONS[0];
        connection.execute_batch(CREATE).unwrap();
        connection.execute_batch(first.sql).unwrap();
        let row = params![first.number, first.name, checksum(first.sql)];
        connection
            .execute("INSERT INTO tidelock_migrations VALUES (?1, ?2, ?3, 0, 1)", row)
            .unwrap();
        connection
    }

    /// KEEP-1, KEEP-4: rows of an older file get their expiry times too.
    #[test]
    fn what_the_first_version_left_behind_leaves() {
        let hour = 3_600_000_000;
        let mut connection = first_version();
        connection
            .execute_batch(
                "UPDATE tidelock_meta SET clock = 1000;
                 INSERT INTO tidelock_records VALUES ('deleted', 7, NULL, NULL), ('there', 2, '1', NULL), ('expiring', 3, '1', 50);
                 INSERT INTO tidelock_commits VALUES (x'01', x'02', '{}', 1000);
                 INSERT INTO tidelock_items (queue, key, lane, priority, at, mark, attempts, failures, expiries, blocked, fence)
                     VALUES ('q', 'k', 'main', 0, 1, 1, 0, 0, 0, 0, 4);
                 INSERT INTO tidelock_streams VALUES (1, 's', 3, 4, 1);",
            )
            .unwrap();
        migrate(&mut connection, now()).unwrap();
        let sweep = |micros| {
            let now = Timestamp::from_micros(micros).unwrap();
            let mut cache = crate::commit::WriterCache::default();
            let mut transaction = crate::commit::Transaction {
                connection: &connection,
                cache: &mut cache,
                now,
                topics: None,
            };
            assert!(!transaction.sweep(10).unwrap());
        };
        let all = |sql: &str| {
            let mut statement = connection.prepare(sql).unwrap();
            let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            rows.map(Result::unwrap).collect::<Vec<_>>()
        };
        let records = "SELECT key FROM tidelock_records ORDER BY key";
        sweep(999 + hour);
        assert_eq!(
            all(records),
            ["deleted", "there"],
            "the one that expired is older than an hour"
        );
        sweep(1000 + hour);
        assert_eq!(all(records), ["there"]);
        let floors =
            "SELECT revision_floor || ' ' || fence_floor || ' ' || epoch FROM tidelock_meta";
        assert_eq!(all(floors), ["7 0 0"]);
        sweep(999 + 7 * 24 * hour);
        assert_eq!(all("SELECT hex(id) FROM tidelock_commits"), ["01"]);
        sweep(1000 + 7 * 24 * hour);
        assert_eq!(all("SELECT hex(id) FROM tidelock_commits"), [""; 0]);
        assert_eq!(all("SELECT key FROM tidelock_items"), ["k"]);
        assert_eq!(all("SELECT name FROM tidelock_streams"), ["s"]);
    }
}
