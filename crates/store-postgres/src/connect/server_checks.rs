//! Server checks: whether a server can keep the store's promises.

use tidelock_store::{Result, RetryAdvice, StoreError, StoreErrorKind, StoreOperation};

use crate::connect::session::Session;
use crate::error::failed;
use crate::open::PostgresOptions;
use crate::statement::{Statement, statement};

/// The oldest supported PostgreSQL.
const OLDEST: i32 = 130_000;

static SERVER_SETTINGS: Statement = statement!(
    "SELECT current_setting('server_version_num')::int, current_setting('server_encoding'),
            current_setting('fsync'), current_setting('synchronous_commit'), pg_is_in_recovery()"
);

pub(crate) async fn check(session: &Session, options: &PostgresOptions) -> Result<()> {
    let rows = session.ask(&SERVER_SETTINGS, &[]).await.map_err(failed)?;
    let row =
        rows.first().ok_or_else(|| StoreError::corrupt("the server told nothing about itself"))?;
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
