//! Inputs: the forms in which handlers receive events.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use tidelock_store::{EventType, Store, StoredEvent};

use crate::event::Event as Typed;
use crate::handler_error::HandlerError;
use crate::recorded::{ReadError, Recorded};

/// A form in which a handler receives events.
pub trait Input: Sized + Send + Sync + 'static {
    /// Returns the event types of this form; empty means all types.
    fn types() -> Vec<EventType>;

    /// Decodes the events.
    ///
    /// # Errors
    /// Returns an error if an event is not of this form. This blocks the target at once, because
    /// the same event fails until the code changes. An error of the store is retried.
    fn read(
        store: &dyn Store,
        events: Vec<StoredEvent>,
    ) -> BoxFuture<'_, Result<Vec<Self>, HandlerError>>;
}

/// The stored event, of any type.
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

/// A typed event with its stream, version and position.
impl<E: Typed> Input for Recorded<E> {
    fn types() -> Vec<EventType> {
        let types = E::TYPES.iter().map(|name| EventType::new(*name));
        // No stored event has a type name that stores reject.
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
