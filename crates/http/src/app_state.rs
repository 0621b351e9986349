//! What every handler is given: the store, and what is shared among requests.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use tidelock::doctor::Doctor;
use tidelock::{Store, Tidelock};
use tokio::sync::{Mutex, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::auth::Tokens;
use crate::commits::Commits;
use crate::kinds::Kinds;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::samples::Samples;

/// How an API is set up.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) tidelock: Tidelock,
    /// Without them everybody is a reader.
    pub(crate) tokens: Option<Tokens>,
    /// In lower case.
    pub(crate) hosts: BTreeSet<String>,
    pub(crate) limits: Limits,
    pub(crate) kinds: Kinds,
    pub(crate) metrics: Option<Metrics>,
    /// How many commits there were, if they are counted.
    pub(crate) commits: Option<Commits>,
    /// Who looks after the store; one who knows no more than the contract, if there is none.
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

/// The state of the router. Clones are handles on the same.
#[derive(Debug, Clone)]
pub(crate) struct AppState(Arc<Shared>);

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) setup: Setup,
    /// A permit for each event stream that may be open.
    pub(crate) streams: Arc<Semaphore>,
    pub(crate) samples: Samples,
    /// Whose turn it is to have the store examined.
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
