//! The doctor: health checks that explain why work is not making progress.
//!
//! It examines a store and reports findings: what is wrong, with which subject, since when, and the
//! remedy. `checks.rs` has the table of checks. Every scan is bounded, see [`Thresholds`]: work
//! items are paged through up to a limit, and only the first findings of each kind are kept, with a
//! count of the rest. The doctor is read-only.
//!
//! Findings are data; the caller chooses how to show them. The command `tidelock doctor` prints
//! them.

mod checks;
pub mod display;
mod examination;
mod finding;
mod remedy;
mod subject;

// Checks with their own rules for what they read.
#[cfg(feature = "postgres")]
mod blockers;
mod claim_outcomes;
mod hot;
mod hot_records;
mod routes;
mod stuck_workers;
mod unserved;
mod versions;

use std::sync::Arc;

use tidelock_store::{Result, Store};
#[cfg(feature = "postgres")]
use tidelock_store_postgres::PostgresStore;

use examination::Examination;
use finding::Findings;

use crate::handle::Tidelock;

pub use examination::Thresholds;
pub use finding::{Diagnosis, Finding, FindingKind, Severity};
pub use remedy::{Remedy, RemedyAction, RemedyTask};
pub use subject::Subject;

/// Examines one store and reports what needs attention.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use tidelock::doctor::Doctor;
///
/// let store = tidelock::open("memory:").await?;
/// let diagnosis = Doctor::over(store).examine().await?;
/// for finding in &diagnosis.findings {
///     println!("{}: {}", finding.subject, finding.what);
/// }
/// assert!(diagnosis.is_healthy());
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Doctor {
    store: Arc<dyn Store>,
    name: Option<String>,
    url: Option<String>,
    bounds: Thresholds,
    #[cfg(feature = "postgres")]
    postgres: Option<PostgresStore>,
}

impl Tidelock {
    /// Returns a doctor for the store.
    pub fn doctor(&self) -> Doctor {
        let doctor = Doctor::over(self.store().clone());
        #[cfg(feature = "postgres")]
        let doctor = self.postgres().cloned().into_iter().fold(doctor, Doctor::with_postgres);
        doctor
    }
}

impl Doctor {
    /// Creates a doctor for `store` with the default thresholds.
    pub fn over(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            name: None,
            url: None,
            bounds: Thresholds::default(),
            #[cfg(feature = "postgres")]
            postgres: None,
        }
    }

    /// Sets the display name of the store, for example its URL without credentials.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the store's URL.
    ///
    /// The redacted URL becomes the display name, and the remedies' commands include it, so that
    /// they can be copied.
    #[must_use]
    pub fn at(mut self, url: &str) -> Self {
        self.url = Some(crate::redacted_url(url));
        self.called(crate::redacted_url(url))
    }

    /// Sets the thresholds and scan limits.
    #[must_use]
    pub fn within(mut self, bounds: Thresholds) -> Self {
        self.bounds = bounds;
        self
    }

    /// Returns the thresholds and scan limits.
    pub fn bounds(&self) -> Thresholds {
        self.bounds
    }

    /// Adds checks that only PostgreSQL can answer: the server's version, and the sessions that
    /// block others.
    ///
    /// `store` must be the store that is examined.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn with_postgres(mut self, store: PostgresStore) -> Self {
        self.postgres = Some(store);
        self
    }

    /// Runs every check. Changes nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    ///
    /// use tidelock::doctor::{Doctor, Severity, Thresholds};
    ///
    /// let store = tidelock::open("memory:").await?;
    /// let thresholds = Thresholds { stuck_after: Duration::from_secs(5), ..Thresholds::default() };
    /// let diagnosis = Doctor::over(store).within(thresholds).examine().await?;
    /// assert!(diagnosis.findings.iter().all(|finding| finding.severity == Severity::Info));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the store's error if the store cannot be read.
    pub async fn examine(&self) -> Result<Diagnosis> {
        let exam = Examination::begin(&self.store, self.bounds).await?;
        let mut findings = Findings::new(self.bounds.show);
        let sample = hot_records::Sample::take(&exam).await?;
        findings.add(versions::check(self).await?);
        let routes = routes::check(&exam, &mut findings).await?;
        checks::items(&exam, &routes, &mut findings).await?;
        checks::open_runs(&exam, &mut findings).await?;
        checks::claims(&exam, &mut findings).await?;
        checks::closings(&exam, &mut findings).await?;
        hot::check(&exam, &mut findings).await?;
        sample.compare(&exam, &mut findings).await?;
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            blockers::check(postgres, &exam, &mut findings).await?;
        }
        let mut diagnosis: Diagnosis = findings.into();
        diagnosis
            .findings
            .iter_mut()
            .for_each(|finding| finding.remedy.store.clone_from(&self.url));
        Ok(diagnosis)
    }
}
