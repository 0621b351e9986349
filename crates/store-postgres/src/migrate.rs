//! Schema migrations.
//!
//! Each migration is one SQL script with a number and a checksum. It is applied in one transaction
//! together with the row that records it: an interrupted step has not happened, and the next
//! process makes it. Processes that start at once take turns by a lock on the table of migrations,
//! and all but one find it done. When everything is applied, only a read is needed, so the
//! application's role needs no right to change tables.
//!
//! A schema from a newer version is used if all that was added since works with this version, as
//! the rows of its migrations say (expand and contract); else, and if its migrations are not these,
//! it is refused unchanged.

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};
use tokio_postgres::error::SqlState;
use uuid::Uuid;

use crate::connect::Session;
use crate::error::{failed, is_deadlock, is_denied, is_race};
use crate::statement::{Statement, sql_file, statement};

struct Migration {
    number: i32,
    name: &'static str,
    sql: &'static str,
    /// The oldest version of the schema whose programs also work on this one. A migration that only
    /// adds keeps that of the one before; one that takes something away raises it.
    works_with: i32,
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

/// The number of migrations of a schema that this version uses.
pub const SCHEMA_VERSION: usize = MIGRATIONS.len();

/// How often to retry when other sessions create the same objects at the same moment.
const TRIES: usize = 50;

static HAS_TABLE: Statement = statement!(
    "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1),
            to_regclass(quote_ident($1) || '.migrations') IS NOT NULL,
            EXISTS (SELECT FROM pg_attribute WHERE attname = 'works_with' AND NOT attisdropped
                AND attrelid = to_regclass(quote_ident($1) || '.migrations'))": TEXT);
// A schema that an earlier version made has no column `works_with`.
static APPLIED: Statement = statement!(
    "SELECT number, name, checksum, (to_jsonb(m) ->> 'works_with')::integer
     FROM tidelock.migrations m ORDER BY number"
);
static APPLY: Statement = statement!(
    "INSERT INTO tidelock.migrations (number, name, checksum, applied_at, works_with)
     VALUES ($1, $2, $3, clock_timestamp(), $4)": INT4, TEXT, TEXT, INT4);

/// Applies missing migrations.
pub(crate) async fn migrate(session: &Session, schema: &str) -> Result<()> {
    if applied(session, schema).await? >= MIGRATIONS.len() {
        return Ok(());
    }
    create_table(session, schema).await.map_err(|e| not_allowed(e, schema))?;
    for migration in MIGRATIONS {
        apply_in_the_end(session, schema, migration).await.map_err(|e| not_allowed(e, schema))?;
    }
    Ok(())
}

/// Applies one step; retries after a deadlock with a program that uses the tables.
async fn apply_in_the_end(session: &Session, schema: &str, migration: &Migration) -> Result<()> {
    let mut tries = 0;
    loop {
        tries += 1;
        let outcome = apply(session, schema, migration).await;
        if outcome.is_err() {
            // Best effort: a lost connection has no transaction left.
            let _ = session.execute("ROLLBACK").await;
        }
        match outcome {
            Err(error) if tries < TRIES && is_deadlock(&error) => {}
            outcome => return outcome,
        }
    }
}

/// Refuses a schema that is not up to date, without changing it.
pub(crate) async fn check(session: &Session, schema: &str) -> Result<()> {
    match applied(session, schema).await? {
        n if n >= MIGRATIONS.len() => Ok(()),
        0 => Err(incompatible(format!(
            "there is no Tidelock store in schema {schema:?}, and migrate=0 was asked for: make one with the owner role"
        ))),
        n => Err(incompatible(format!(
            "schema {schema:?} has {n} of {} migrations, and migrate=0 was asked for: run them with the owner role",
            MIGRATIONS.len()
        ))),
    }
}

/// The number of applied migrations; refuses the schema if they are not ours, or are newer and do
/// not work with this version.
async fn applied(session: &Session, schema: &str) -> Result<usize> {
    let rows = session.ask(&HAS_TABLE, &[&schema]).await.map_err(failed)?;
    let has_table = rows.first().is_some_and(|row| row.try_get(1).unwrap_or(false));
    if !has_table {
        return Ok(0);
    }
    let rows = session.ask(&APPLIED, &[]).await.map_err(|e| not_ours(e, schema))?;
    for (at, row) in rows.iter().enumerate() {
        let text = |column| row.try_get::<_, String>(column).map_err(failed);
        let number: i32 = row.try_get(0).map_err(failed)?;
        let works_with: Option<i32> = row.try_get(3).map_err(failed)?;
        match MIGRATIONS.get(at) {
            None if works_with_this_version(works_with) => {}
            known => check_known(known, number, &text(1)?, &text(2)?)?,
        }
    }
    Ok(rows.len())
}

fn works_with_this_version(oldest: Option<i32>) -> bool {
    let own = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    oldest.is_some_and(|oldest| oldest <= own)
}

/// Creates the schema and the table of migrations. `IF NOT EXISTS` is not atomic: two processes can
/// both see nothing, and then one of them fails on a catalog's index.
async fn create_table(session: &Session, schema: &str) -> Result<()> {
    let rows = session.ask(&HAS_TABLE, &[&schema]).await.map_err(failed)?;
    let has = |column| rows.first().is_some_and(|row| row.try_get(column).unwrap_or(false));
    let has_schema = has(0);
    // Only where it is missing: it locks the table against readers.
    let add = if has(1) && !has(2) { sql_file!("add_works_with") } else { "" };
    let schema_sql = if has_schema {
        String::new()
    } else {
        format!("CREATE SCHEMA IF NOT EXISTS \"{schema}\"; ")
    };
    let sql = format!("{schema_sql}{}; {add}", sql_file!("create_migrations"));
    let mut tries = 0;
    loop {
        tries += 1;
        match session.execute(&sql).await {
            Err(error) if tries < TRIES && (is_race(&error) || is_there(&error)) => {
                tokio::task::yield_now().await;
            }
            outcome => return outcome.map_err(failed),
        }
    }
}

fn is_there(error: &tokio_postgres::Error) -> bool {
    let there =
        [&SqlState::DUPLICATE_SCHEMA, &SqlState::DUPLICATE_TABLE, &SqlState::DUPLICATE_OBJECT];
    error.code().is_some_and(|code| there.contains(&code))
}

/// Applies one step, unless another process has done it before this one gets the lock.
async fn apply(session: &Session, schema: &str, migration: &Migration) -> Result<()> {
    session
        .execute("BEGIN; LOCK TABLE tidelock.migrations IN SHARE ROW EXCLUSIVE MODE")
        .await
        .map_err(failed)?;
    if applied(session, schema).await? < usize::try_from(migration.number).unwrap_or(usize::MAX) {
        session.execute(migration.sql).await.map_err(failed)?;
        let row: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&migration.number, &migration.name, &checksum(migration.sql), &migration.works_with];
        session.ask(&APPLY, &row).await.map_err(failed)?;
    }
    session.execute("COMMIT").await.map_err(failed)
}

fn check_known(known: Option<&Migration>, number: i32, name: &str, sum: &str) -> Result<()> {
    match known {
        Some(known) if known.number == number && checksum(known.sql) == sum => Ok(()),
        None => Err(incompatible(format!(
            "the schema was made by a newer version of Tidelock (it has migration {number}, {name:?}; this version \
             knows {}): upgrade this program",
            MIGRATIONS.len()
        ))),
        Some(_) => Err(incompatible(format!(
            "migration {number} ({name:?}) of the schema is not the one that this version of Tidelock knows: the schema \
             was changed by something else, or by an unreleased version"
        ))),
    }
}

/// Many programs have a table of migrations, possibly in the schema that was chosen for the store.
fn not_ours(error: tokio_postgres::Error, schema: &str) -> StoreError {
    if error.code() != Some(&SqlState::UNDEFINED_COLUMN) {
        return failed(error);
    }
    incompatible(format!(
        "the table \"migrations\" of schema {schema:?} is not Tidelock's: give the store a schema of its own with schema=NAME"
    ))
    .caused_by(failed(error))
}

fn not_allowed(error: StoreError, schema: &str) -> StoreError {
    if is_denied(&error) {
        return incompatible(format!(
            "schema {schema:?} has no store or an older one, and this role may not make or change its tables: open it once with \
             the owner role (docs/guides/postgres.md)"
        ))
        .caused_by(error);
    }
    error
}

fn incompatible(context: String) -> StoreError {
    StoreError::new(StoreErrorKind::Incompatible, RetryAdvice::Never, StoreOperation::Open, context)
}

fn checksum(sql: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, sql.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use tidelock_store::limits;

    use super::*;
    use crate::statement::FORGET_AT;

    #[test]
    fn what_works_is_never_lowered_and_never_beyond_its_own_number() {
        let works: Vec<_> = MIGRATIONS.iter().map(|migration| migration.works_with).collect();
        assert!(works.is_sorted(), "{works:?}");
        assert!(MIGRATIONS.iter().all(|it| (1..=it.number).contains(&it.works_with)));
    }

    /// The functions that sweep know the retention themselves, so that no caller can make them
    /// forget sooner.
    #[test]
    fn the_script_and_the_contract_agree_on_how_long_rows_are_kept() {
        let retention = MIGRATIONS[1].sql;
        for memory in [limits::TOMBSTONE_MEMORY, limits::COMMIT_MEMORY] {
            assert!(retention.contains(&format!("+ {}", memory.as_micros())), "{memory:?}");
        }
        assert!(FORGET_AT.contains(&limits::COMMIT_MEMORY.as_micros().to_string()));
    }
}
