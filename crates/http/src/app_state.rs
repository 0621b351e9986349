//! Application state: the store, and what is shared among requests.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tidelock::Tidelock;
use tidelock::doctor::Doctor;
use tidelock::store::Store;
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::auth::Tokens;
use crate::commits::Commits;
use crate::kinds::Kinds;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::samples::Samples;

/// The API's configuration.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) tidelock: Tidelock,
    /// `None`: every caller is a reader.
    pub(crate) tokens: Option<Tokens>,
    /// Lower-case.
    pub(crate) hosts: BTreeSet<String>,
    pub(crate) limits: Limits,
    pub(crate) kinds: Kinds,
    pub(crate) metrics: Option<Metrics>,
    /// The number of commits, if they are counted.
    pub(crate) commits: Option<Commits>,
    /// `None`: a doctor that knows only the store contract.
    pub(crate) doctor: Option<Doctor>,
    /// Cancelled when event streams and waiting requests should end.
    pub(crate) closing: CancellationToken,
}

impl Setup {
    pub(crate) fn over(tidelock: Tidelock) -> Self {
        let (hosts, limits, closing) =
            (BTreeSet::new(), Limits::default(), CancellationToken::new());
        Self {
            tidelock,
            tokens: None,
            hosts,
            limits,
            kinds: Kinds::default(),
            metrics: None,
            commits: None,
            doctor: None,
            closing,
        }
    }
}

/// The router's state. Clones are handles to the same state.
#[derive(Debug, Clone)]
pub(crate) struct AppState(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    /// One permit per event stream that can be open.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) samples: Samples,
    /// Serializes examinations of the store.
    pub(crate) exam: Mutex<()>,
    /// The OpenAPI document, once the routes are known.
    pub(crate) document: OnceLock<Bytes>,
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl AppState {
    pub(crate) fn new(setup: Setup) -> Self {
        let streams = Arc::new(Semaphore::new(setup.limits.streams));
        Self(Arc::new(Shared {
            setup,
            streams,
            samples: Samples::default(),
            exam: Mutex::default(),
            document: OnceLock::new(),
        }))
    }

    pub(crate) fn tidelock(&self) -> &Tidelock {
        &self.setup.tidelock
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &**self.setup.tidelock.store()
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.setup.limits
    }
}
