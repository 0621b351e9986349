//! Server checks: whether a server can keep the store's promises.

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation, fresh_uuid};

use crate::connect::session::Session;
use crate::error::failed;
use crate::open::PostgresOptions;
use crate::statement::{Statement, statement};

/// The oldest supported PostgreSQL.
const OLDEST: i32 = 130_000;

/// The text of `version()` on databases that speak PostgreSQL's protocol and are not it.
const OTHERS: [&str; 11] = [
    "CockroachDB",
    "-YB-",
    "YugabyteDB",
    "Redshift",
    "Greenplum",
    "DSQL",
    "Materialize",
    "RisingWave",
    "CrateDB",
    "QuestDB",
    "openGauss",
];

static VERSION: Statement = statement!("SELECT version()");

static SERVER_SETTINGS: Statement = statement!(
    "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
            current_setting('fsync'), current_setting('synchronous_commit'), pg_is_in_recovery()"
);

/// A lock of a number that no store uses, until the end of the transaction.
static LOCK: Statement = statement!("SELECT pg_advisory_xact_lock_shared(1953063787, $1)": INT4);

static SEEN: Statement = statement!(
    "SELECT count(*) FROM pg_locks
     WHERE locktype = 'advisory' AND classid::bigint = 1953063787 AND objid::bigint = $1 AND granted
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())": INT8
);

pub(crate) async fn check(session: &Session, options: &PostgresOptions) -> Result<()> {
    // Asked first: other databases do not know the settings.
    let rows = session.ask(&VERSION, &[]).await.map_err(failed)?;
    let row = rows.first().ok_or_else(unidentified)?;
    check_name(row.try_get(0).map_err(failed)?)?;
    let rows = session.ask(&SERVER_SETTINGS, &[]).await.map_err(failed)?;
    let row = rows.first().ok_or_else(unidentified)?;
    let text = |column| row.try_get::<_, &str>(column).map_err(failed);
    check_version(row.try_get(0).map_err(failed)?)?;
    check_encoding(text(1)?)?;
    if row.try_get(4).map_err(failed)? {
        return Err(StoreError::new(
            StoreErrorKind::Unavailable,
            RetryAdvice::Later,
            StoreOperation::Open,
            "the server is a standby: name the primary, or all servers with target_session_attrs=read-write",
        ));
    }
    if !options.allow_lossy {
        check_durable(text(2)?, text(3)?)?;
    }
    Ok(())
}

/// Checks that a lock of one connection is seen at once by another: the order of the feed rests on
/// it. A database that only speaks PostgreSQL's protocol may show locks late, or not at all.
pub(crate) async fn check_locks_are_seen(session: &Session, other: &Session) -> Result<()> {
    let number = (fresh_uuid().as_u128() as u32 >> 1) as i32;
    session.execute("BEGIN").await.map_err(failed)?;
    session.ask(&LOCK, &[&number]).await.map_err(failed)?;
    let rows = other.ask(&SEEN, &[&i64::from(number)]).await.map_err(failed)?;
    session.execute("ROLLBACK").await.map_err(failed)?;
    let seen: i64 = rows.first().ok_or_else(unidentified)?.try_get(0).map_err(failed)?;
    match seen {
        1 => Ok(()),
        _ => Err(incompatible(
            "the server does not show the advisory lock of one connection to another, on which the order of events \
             rests: it is not PostgreSQL, or pg_locks is hidden from this role"
                .to_owned(),
        )),
    }
}

fn check_name(version: &str) -> Result<()> {
    let is_other = OTHERS.iter().any(|other| version.contains(other));
    if version.starts_with("PostgreSQL ") && !is_other {
        return Ok(());
    }
    Err(incompatible(format!(
        "the server is not PostgreSQL: it calls itself {version:?}; databases that only speak PostgreSQL's protocol lack \
         the locks and sequences that the order of events rests on"
    )))
}

fn unidentified() -> StoreError {
    StoreError::corrupt("the server told nothing about itself")
}

fn check_version(version: i32) -> Result<()> {
    if version >= OLDEST {
        return Ok(());
    }
    Err(incompatible(format!(
        "the server is PostgreSQL {}; 13 or newer is needed",
        version / 10_000
    )))
}

fn check_encoding(encoding: &str) -> Result<()> {
    if encoding == "UTF8" {
        return Ok(());
    }
    Err(incompatible(format!(
        "the database's encoding is {encoding}; create one with ENCODING 'UTF8'"
    )))
}

fn check_durable(fsync: &str, synchronous_commit: &str) -> Result<()> {
    for (setting, value) in [("fsync", fsync), ("synchronous_commit", synchronous_commit)] {
        if value == "off" {
            return Err(incompatible(format!(
                "{setting} is off on the server, so a crash would undo what was acknowledged: switch it on for this role \
                 or database, or open the store with lossy=allow if that is acceptable"
            )));
        }
    }
    Ok(())
}

fn incompatible(context: String) -> StoreError {
    StoreError::new(StoreErrorKind::Incompatible, RetryAdvice::Never, StoreOperation::Open, context)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schedule 119.
    #[test]
    fn only_postgresql_is_accepted_by_its_name() {
        for known in [
            "PostgreSQL 15.14 (Debian 15.14-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc, 64-bit",
            "PostgreSQL 18.0 on aarch64-unknown-linux-gnu, compiled by gcc, 64-bit",
            "PostgreSQL 16.6 on x86_64-pc-linux-gnu, compiled by x86_64-pc-linux-gnu-gcc, 64-bit (Aurora)",
        ] {
            check_name(known).unwrap();
        }
        for other in [
            "CockroachDB CCL v24.1.0 (x86_64-pc-linux-gnu, built 2024/05/15, go1.22.2)",
            "PostgreSQL 11.2-YB-2.20.1.0-b0 on x86_64-pc-linux-gnu, compiled by clang, 64-bit",
            "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc, Redshift 1.0.61687",
            "PostgreSQL 12.12 (Greenplum Database 7.0.0 build) on x86_64-pc-linux-gnu",
            "PostgreSQL 13.14.0 on x86_64-pc-linux-gnu (Materialize 0.95.0)",
            "",
        ] {
            let refused = check_name(other).unwrap_err();
            assert_eq!(refused.kind(), StoreErrorKind::Incompatible, "{refused}");
            assert!(refused.to_string().contains("is not PostgreSQL"), "{refused}");
        }
    }
}
