//! Which store this is, of which version, and with which tables.

use tidelock::postgres::PostgresStore;

use super::finding::{Finding, Kind, Severity};
use crate::failure::Failure;
use crate::place::{Opened, Place};

pub(super) async fn look(place: &Place, opened: &Opened) -> Result<Finding, Failure> {
    let server = match &opened.postgres {
        Some(postgres) => server(postgres).await?,
        None => "SQLite".to_owned(),
    };
    let (schema, own) = (place.schema_version(), env!("CARGO_PKG_VERSION"));
    Ok(Finding {
        kind: Kind::Store,
        severity: Severity::Fact,
        thing: place.shown(),
        since: None,
        what: format!("{server}, schema {schema}, up to date; looked at by tidelock {own}"),
        mend: None,
    })
}

async fn server(postgres: &PostgresStore) -> Result<String, Failure> {
    let asked = postgres.begin().await?.query("SELECT current_setting('server_version')", &[]).await;
    let version = asked.ok().and_then(|rows| rows.first()?.try_get::<_, String>(0).ok());
    Ok(format!("PostgreSQL {}", version.unwrap_or_else(|| "of an unknown version".to_owned())))
}
