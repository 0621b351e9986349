//! The recorded history of a run.

use serde::Deserialize;
use tidelock::store::{Store, StoreExt, StoredEvent, StreamName};

/// The entries of a run, in order.
#[derive(Debug, Clone)]
pub(crate) struct History(Vec<StoredEvent>);

/// The common fields of entries.
#[derive(Debug, Deserialize)]
struct Named {
    name: String,
}

impl History {
    /// Empty, if there is no such run.
    pub(crate) async fn of(store: &dyn Store, run: &str) -> Self {
        let stream = StreamName::new(format!("~run/{run}")).unwrap();
        Self(store.read_whole_stream(&stream).await.unwrap())
    }

    /// The kinds of the entries.
    pub(crate) fn kinds(&self) -> Vec<&str> {
        self.0.iter().map(|event| event.event_type.as_str().trim_start_matches('~')).collect()
    }

    /// How many entries of this kind there are.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.kinds().iter().filter(|there| **there == kind).count()
    }

    /// The names in the entries of this kind.
    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        let event_type = format!("~{kind}");
        let meant = self.0.iter().filter(|event| event.event_type.as_str() == event_type);
        meant.map(|event| event.payload.to::<Named>().unwrap().name).collect()
    }
}
