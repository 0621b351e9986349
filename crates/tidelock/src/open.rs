//! Opening a store by URL.

mod redacted;

use std::sync::Arc;

pub use redacted::redacted_url;
use tidelock_store::{MemoryStore, Result, Store, StoreError, StoreOperation};

/// Opens the store that a URL names.
///
/// - `memory:` is a new store in memory, gone with its last handle.
/// - `sqlite:shop.db` is that file, created if it does not exist. Options follow a question mark:
///   `sqlite:shop.db?busy_timeout_ms=5000&readers=4`. They are `busy_timeout_ms` (10000),
///   `callers_may_write` (1), `migrate` (1; with 0, a file that does not exist or is not up to date
///   is rejected), `readers` (2), `restored` (0; with 1, the file was restored from a backup),
///   `sweep_interval_ms` (10000) and `watch_interval_ms` (20).
/// - `postgres://user@host/database` is that database; its tables are created if they do not exist.
///   The options and the connection settings are listed in `docs/guides/postgres.md`.
///
/// # Errors
/// `Invalid` if the URL has an unknown form or option; otherwise errors of the store.
pub async fn open(url: &str) -> Result<Arc<dyn Store>> {
    open_checked(url).await.map_err(|e| e.during(StoreOperation::Open))
}

/// Checks that a URL makes sense, without opening anything: what it names may not exist.
///
/// # Errors
/// `Invalid` if the URL has an unknown form or option.
///
/// ```
/// assert!(tidelock::check_url("sqlite:no-such-folder/shop.db").is_ok());
/// assert!(tidelock::check_url("sqlite:shop.db?raeders=3").is_err());
/// ```
pub fn check_url(url: &str) -> Result<()> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(()),
        Some(("memory", rest)) => Err(after_memory(rest)),
        Some(("sqlite", rest)) => check_sqlite(rest),
        Some(("postgres" | "postgresql", _)) => check_postgres(url),
        _ => Err(unknown(url)),
    }
}

async fn open_checked(url: &str) -> Result<Arc<dyn Store>> {
    match url.split_once(':') {
        Some(("memory", "")) => Ok(Arc::new(MemoryStore::new())),
        Some(("memory", rest)) => Err(after_memory(rest)),
        Some(("sqlite", rest)) => open_sqlite(rest).await,
        Some(("postgres" | "postgresql", _)) => open_postgres(url).await,
        _ => Err(unknown(url)),
    }
}

fn after_memory(rest: &str) -> StoreError {
    StoreError::invalid(format!("memory: takes nothing after the colon, but has {rest:?}"))
}

fn unknown(url: &str) -> StoreError {
    match url.split_once(':') {
        // The rest after the colon may contain a password.
        Some((scheme, _)) => {
            no_store_url(&format!("{:?} is no kind of store", redacted_url(scheme)))
        }
        None => no_store_url(&format!("{:?} is no store URL", redacted_url(url))),
    }
}

fn no_store_url(what: &str) -> StoreError {
    StoreError::invalid(format!(
        "{what}: write memory:, sqlite:PATH or postgres://USER@HOST/DATABASE, for example sqlite:shop.db"
    ))
}

#[cfg(feature = "postgres")]
async fn open_postgres(url: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(tidelock_store_postgres::PostgresStore::open(url).await?))
}

#[cfg(feature = "postgres")]
fn check_postgres(url: &str) -> Result<()> {
    tidelock_store_postgres::PostgresStore::check_url(url)
}

#[cfg(not(feature = "postgres"))]
async fn open_postgres(_: &str) -> Result<Arc<dyn Store>> {
    Err(without_postgres())
}

#[cfg(not(feature = "postgres"))]
fn check_postgres(_: &str) -> Result<()> {
    Err(without_postgres())
}

#[cfg(not(feature = "postgres"))]
fn without_postgres() -> StoreError {
    StoreError::invalid(
        "this program was built without PostgreSQL: enable the feature \"postgres\" of tidelock",
    )
}

/// A path and its options.
#[cfg(feature = "sqlite")]
fn parse_sqlite(rest: &str) -> Result<(String, tidelock_store_sqlite::SqliteOptions)> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path = path.strip_prefix("//").unwrap_or(path).to_owned();
    if path.is_empty() || path == ":memory:" {
        return Err(StoreError::invalid(
            "sqlite: needs a file, for example sqlite:shop.db (for a store in memory, write memory:)",
        ));
    }
    let mut options = tidelock_store_sqlite::SqliteOptions::default();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        options.set(name, value)?;
    }
    Ok((path, options))
}

#[cfg(feature = "sqlite")]
fn check_sqlite(rest: &str) -> Result<()> {
    parse_sqlite(rest).map(drop)
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(rest: &str) -> Result<Arc<dyn Store>> {
    let (path, options) = parse_sqlite(rest)?;
    // Opening waits for the disk, and for other processes that migrate the same file, so it runs on
    // its own thread.
    let (reply, opened) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("tidelock-open".into())
        .spawn(move || reply.send(tidelock_store_sqlite::SqliteStore::open(path, &options)))
        .map_err(|e| {
            StoreError::invalid("a thread for opening the file cannot be started").caused_by(e)
        })?;
    let store = opened
        .await
        .map_err(|e| StoreError::invalid("opening the file was cut short").caused_by(e))??;
    Ok(Arc::new(store))
}

#[cfg(not(feature = "sqlite"))]
async fn open_sqlite(_: &str) -> Result<Arc<dyn Store>> {
    Err(without_sqlite())
}

#[cfg(not(feature = "sqlite"))]
fn check_sqlite(_: &str) -> Result<()> {
    Err(without_sqlite())
}

#[cfg(not(feature = "sqlite"))]
fn without_sqlite() -> StoreError {
    StoreError::invalid(
        "this program was built without SQLite: enable the feature \"sqlite\" of tidelock",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn refusal(url: &str) -> String {
        open(url).await.expect_err(url).to_string()
    }

    #[tokio::test]
    async fn a_bad_url_says_what_a_good_one_looks_like() {
        assert!(refusal("shop.db").await.contains("sqlite:shop.db"));
        assert!(refusal("redis://localhost").await.contains("sqlite:PATH"));
        assert!(refusal("memory:x").await.contains("nothing after the colon"));
        for secret in [
            "postgress://joe:hush@host/shop",
            "host=db password=hush",
            "host=db password=hush:hush",
        ] {
            let refused = refusal(secret).await;
            assert!(
                !refused.contains("hush") && refused.contains("postgres://USER@HOST"),
                "{refused}"
            );
        }
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn an_unknown_option_is_refused_before_a_file_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let message = refusal(&format!("sqlite:{}?cache=shared", path.display())).await;
        assert!(message.contains("unknown option \"cache\""), "{message}");
        assert!(!path.exists());
        assert!(refusal("sqlite:").await.contains("needs a file"));
        assert!(refusal("sqlite::memory:").await.contains("write memory:"));
    }

    #[cfg(feature = "sqlite")]
    #[tokio::test]
    async fn a_file_that_is_not_a_database_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        let text = "these are not the tables you are looking for".repeat(100);
        std::fs::write(&path, &text).unwrap();
        let message = refusal(&format!("sqlite:{}", path.display())).await;
        assert!(message.contains("not an SQLite database"), "{message}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}
