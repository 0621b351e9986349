//! The registered kinds of aggregates, by name: those whose state the API can show.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use tidelock::Tidelock;
use tidelock::events::{Aggregate, LoadError};
use tidelock::store::{RawJson, Version};

/// A state, as JSON.
#[derive(Debug)]
pub(crate) struct StateRead {
    pub(crate) version: Option<Version>,
    pub(crate) state: RawJson,
}

type Reading = Pin<Box<dyn Future<Output = Result<StateRead, LoadError>> + Send>>;
type Read = dyn Fn(&Tidelock, &str, Option<Version>) -> Reading + Send + Sync;

/// The registered kinds.
#[derive(Clone, Default)]
pub(crate) struct Kinds {
    kinds: BTreeMap<&'static str, Arc<Read>>,
}

impl Kinds {
    pub(crate) fn add<A: Aggregate + Serialize>(&mut self) {
        self.kinds.insert(
            A::KIND,
            Arc::new(|tidelock, id, version| {
                Box::pin(read::<A>(tidelock.clone(), id.to_owned(), version))
            }),
        );
    }

    /// The names of the registered kinds.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.kinds.keys().copied().collect()
    }

    /// The function that reads the state of this kind.
    pub(crate) fn get(&self, kind: &str) -> Option<&Read> {
        self.kinds.get(kind).map(|read| &**read)
    }
}

async fn read<A: Aggregate + Serialize>(
    tidelock: Tidelock,
    id: String,
    version: Option<Version>,
) -> Result<StateRead, LoadError> {
    let aggregate = tidelock.aggregate::<A>(&id);
    let loaded = match version {
        Some(version) => aggregate.load_at_version(version).await?,
        None => aggregate.load().await?,
    };
    Ok(StateRead { version: loaded.version, state: RawJson::new(&*loaded.state)? })
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.kinds.keys()).finish()
    }
}
