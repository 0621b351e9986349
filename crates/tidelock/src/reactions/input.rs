//! What handlers get: events as the store has them, or as a type of the user's.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tidelock_store::{EventType, Store, StoredEvent};

use super::HandlerError;
use crate::event::Event as Typed;
use crate::recorded::{ReadError, Recorded};

/// An event in the form that a handler wants.
pub trait Input: Sized + Send + Sync + 'static {
    /// The types of events that there are of this form; all types, if there are none.
    fn types() -> Vec<EventType>;

    /// The events in this form.
    ///
    /// # Errors
    /// If one is not of this form. That blocks the target at once, because the same event will not
    /// read otherwise until the code changes. A failure of the store is tried again.
    fn read(
        store: &dyn Store,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'_, Result<Vec<Self>, HandlerError>>;
}

/// As the store has it, whatever its type.
impl Input for StoredEvent {
    fn types() -> Vec<EventType> {
        Vec::new()
    }

    fn read(
        _: &dyn Store,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'_, Result<Vec<Self>, HandlerError>> {
        ready(Ok(events)).boxed()
    }
}

/// As a type of the user's, with its place in the store.
impl<E: Typed> Input for Recorded<E> {
    fn types() -> Vec<EventType> {
        let types = E::TYPES.iter().map(|name| EventType::new(*name));
        // A name that no store would take is on no stored event either.
        types.filter_map(Result::ok).collect()
    }

    fn read(
        store: &dyn Store,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'_, Result<Vec<Self>, HandlerError>> {
        let read = Self::read(store, events).map(|read| {
            read.map_err(|error| match error {
                ReadError::Unreadable(unreadable) => HandlerError::fatal(unreadable),
                ReadError::Store(error) => HandlerError::again(error),
            })
        });
        read.boxed()
    }
}
