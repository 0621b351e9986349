//! The doctor: why is this not moving?
//!
//! It looks at a store and says what is the matter with which thing, since when, and what mends it.
//! Each kind of finding is a file of its own in `doctor/`. What is looked at is bounded, see
//! [`Thresholds`]: work items are paged through up to a limit, and of each kind only the first findings
//! are kept, with how many more there are. The doctor changes nothing.
//!
//! Findings are data: whoever shows them chooses how. The command `tidelock doctor` prints them.

mod check;
mod diagnosis;
pub mod display;
mod finding;
mod remedy;
mod subject;
mod thresholds;

// What is said of the store itself.
mod versions;

// What is wrong with one work item.
mod blocked;
mod expired;
mod expiring;
mod expiry_loop;
mod hung;
mod parked;
mod retrying;
mod unrouted;

// What is wrong with many, or with what is more than an item.
mod abandoned;
mod ambiguous;
#[cfg(feature = "postgres")]
mod blockers;
mod half_closed;
mod hot;
mod open_runs;
mod orphaned;
mod routes;
mod unserved;

use std::sync::Arc;

use tidelock_store::{Result, Store};
#[cfg(feature = "postgres")]
use tidelock_store_postgres::PostgresStore;

use check::Check;
use diagnosis::Findings;

pub use diagnosis::Diagnosis;
pub use finding::{Finding, FindingKind, Severity};
pub use remedy::{Remedy, RemedyAction, RemedyTask};
pub use subject::Subject;
pub use thresholds::Thresholds;

/// Looks after one store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use tidelock::doctor::Doctor;
/// let store = tidelock::open("memory:").await?;
/// let diagnosis = Doctor::over(store).examine().await?;
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

impl Doctor {
    /// Looks after this store.
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

    /// The same, with the store under a name that people know it by, such as its URL without what
    /// is secret in it.
    #[must_use]
    pub fn called(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The same, of the store at this URL: it is called so, as far as it may be shown, and the
    /// commands of cures name it, so that they can be copied.
    #[must_use]
    pub fn at(mut self, url: &str) -> Self {
        self.url = Some(crate::redacted_url(url));
        self.called(crate::redacted_url(url))
    }

    /// The same, within these bounds.
    #[must_use]
    pub fn within(mut self, bounds: Thresholds) -> Self {
        self.bounds = bounds;
        self
    }

    /// How far it looks.
    pub fn bounds(&self) -> Thresholds {
        self.bounds
    }

    /// The same, with what only the database itself can tell: which version it is of, and which of
    /// its sessions hold up others. The store is the one that is looked after, as itself.
    #[cfg(feature = "postgres")]
    #[must_use]
    pub fn with_postgres(mut self, store: PostgresStore) -> Self {
        self.postgres = Some(store);
        self
    }

    /// Looks at everything, and changes nothing.
    ///
    /// # Errors
    /// What the store says when it cannot be looked at.
    pub async fn examine(&self) -> Result<Diagnosis> {
        let exam = Check::begin(&self.store, &self.bounds).await?;
        let mut findings = Findings::new(self.bounds.show);
        findings.add(versions::look(self).await?);
        let routes = routes::look(&exam, &mut findings).await?;
        exam.items(&routes, &mut findings).await?;
        open_runs::look(&exam, &mut findings).await?;
        abandoned::look(&exam, &mut findings).await?;
        half_closed::look(&exam, &mut findings).await?;
        hot::look(&exam, &mut findings).await?;
        #[cfg(feature = "postgres")]
        if let Some(postgres) = &self.postgres {
            blockers::look(postgres, &exam, &mut findings).await?;
        }
        let mut diagnosis: Diagnosis = findings.into();
        diagnosis
            .findings
            .iter_mut()
            .for_each(|finding| finding.remedy.store.clone_from(&self.url));
        Ok(diagnosis)
    }
}
