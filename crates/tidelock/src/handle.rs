//! The handle that programs keep: one store, and the patterns over it.

use std::sync::Arc;

use tidelock_store::{Event as StoredEvent, Result, Store};

use crate::event::Event;
use crate::events::personal;
use crate::recorded::{ReadError, Recorded};

/// One store, and what is built on it. Clones are handles on the same.
#[derive(Debug, Clone)]
pub struct Tidelock {
    store: Arc<dyn Store>,
}

impl Tidelock {
    /// Over the store that a URL names, as [`open`](crate::open) has it.
    pub async fn open(url: &str) -> Result<Self> {
        Ok(Self::over(crate::open(url).await?))
    }

    /// Over this store.
    pub fn over(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The store itself.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Stored events as a type of yours, with the personal data that belongs to them.
    pub async fn read<E: Event>(&self, events: Vec<StoredEvent>) -> Result<Vec<Recorded<E>>, ReadError> {
        Recorded::read(&*self.store, events).await
    }

    /// Erases all personal data about a subject, and says in how many events there was any. The events stay, without it.
    ///
    /// From the moment that this begins nobody can read or add anything about the subject. If it is cut short, call it again: it
    /// goes on. An erased subject stays erased; somebody who comes back is a new subject.
    pub async fn erase_subject(&self, subject: &str) -> Result<usize> {
        personal::erase(&*self.store, subject).await
    }
}
