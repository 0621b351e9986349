//! The kind, version and schema of the store.

use tidelock_store::Result;

use super::Doctor;
use super::finding::{Finding, FindingKind, Severity};
use super::subject::Subject;

pub(super) async fn check(doctor: &Doctor) -> Result<Finding> {
    let (kind, own) = (doctor.store.capabilities().name, env!("CARGO_PKG_VERSION"));
    let server = server(doctor, kind).await?;
    let tables =
        schema_of(kind).map_or_else(String::new, |schema| format!(", schema {schema}, up to date"));
    let name = doctor.name.clone().unwrap_or_else(|| format!("the {kind} store"));
    let what = format!("{server}{tables}; checked by tidelock {own}");
    Ok(Finding::new(FindingKind::Store, Severity::Info, Subject::Store(name), what))
}

/// The schema version of a store. An open store has the current schema, or a newer one that works
/// with this version, and then has nothing to be brought up to: opening fails on any other.
fn schema_of(kind: &str) -> Option<usize> {
    match kind {
        #[cfg(feature = "postgres")]
        "postgres" => Some(tidelock_store_postgres::SCHEMA_VERSION),
        #[cfg(feature = "sqlite")]
        "sqlite" => Some(tidelock_store_sqlite::SCHEMA_VERSION),
        _ => None,
    }
}

async fn server(doctor: &Doctor, kind: &str) -> Result<String> {
    #[cfg(feature = "postgres")]
    if let Some(postgres) = &doctor.postgres {
        return version_of(postgres).await;
    }
    let _ = doctor;
    Ok(match kind {
        "sqlite" => "SQLite".to_owned(),
        "postgres" => "PostgreSQL (sessions not checked)".to_owned(),
        other => other.to_owned(),
    })
}

#[cfg(feature = "postgres")]
async fn version_of(postgres: &tidelock_store_postgres::PostgresStore) -> Result<String> {
    let answer =
        postgres.begin().await?.query("SELECT current_setting('server_version')", &[]).await;
    let version = answer.ok().and_then(|rows| rows.first()?.try_get::<_, String>(0).ok());
    Ok(format!("PostgreSQL {}", version.unwrap_or_else(|| "of an unknown version".to_owned())))
}
