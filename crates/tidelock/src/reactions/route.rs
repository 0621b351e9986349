//! Routes: the target of an event is its stream, or a name computed from it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tidelock_store::{ItemKey, Store, StoredEvent, limits};

use super::{ReactionName, keys};
use crate::handler_error::HandlerError;
use crate::worker::panic_message;

/// Computes the target of an event. It may have to read the event's data first.
type Compute = dyn Fn(Arc<dyn Store>, StoredEvent) -> Computing + Send + Sync;
type Computing = BoxFuture<'static, Result<Option<String>, HandlerError>>;

/// How a reaction's events are assigned to targets.
#[derive(Clone)]
pub(crate) enum Route {
    /// The target is the event's stream.
    Own,
    /// The target is computed from the event.
    Computed(Arc<Compute>),
}

/// A result of a routing function: a name, an optional name (`None` skips the event), or an error.
pub trait IntoTarget {
    /// Returns the target's name; `None` skips the event.
    ///
    /// # Errors
    /// Returns the error of the routing function.
    fn into_target(self) -> Result<Option<String>, HandlerError>;
}

impl IntoTarget for String {
    fn into_target(self) -> Result<Option<String>, HandlerError> {
        Ok(Some(self))
    }
}

impl IntoTarget for &str {
    fn into_target(self) -> Result<Option<String>, HandlerError> {
        Ok(Some(self.to_owned()))
    }
}

impl<T: IntoTarget> IntoTarget for Option<T> {
    fn into_target(self) -> Result<Option<String>, HandlerError> {
        self.map_or(Ok(None), IntoTarget::into_target)
    }
}

impl<T: IntoTarget, E: Into<HandlerError>> IntoTarget for Result<T, E> {
    fn into_target(self) -> Result<Option<String>, HandlerError> {
        self.map_err(Into::into)?.into_target()
    }
}

impl Route {
    /// Computes the target. A panic fails the route of this event only.
    pub(crate) async fn compute(
        compute: &Arc<Compute>,
        store: &Arc<dyn Store>,
        reaction: &ReactionName,
        event: &StoredEvent,
    ) -> Result<Option<ItemKey>, HandlerError> {
        let computing = AssertUnwindSafe(compute(store.clone(), event.clone()));
        let target = computing.catch_unwind().await.unwrap_or_else(|panic| {
            Err(HandlerError::again(format!(
                "the routing function panicked: {}",
                panic_message(&*panic)
            )))
        })?;
        target.map(|target| check(reaction, target)).transpose()
    }
}

fn check(reaction: &ReactionName, target: String) -> Result<ItemKey, HandlerError> {
    if keys::is_reserved(&target) {
        return Err(HandlerError::fatal(format!(
            "target {target:?} begins with ~, which is reserved"
        )));
    }
    let key = ItemKey::new(target).map_err(HandlerError::fatal)?;
    keys::links(reaction, &key).map_err(|_| {
        let (bytes, limit) =
            (key.as_str().len(), limits::STREAM_NAME_BYTES - reaction.as_str().len() - 8);
        HandlerError::fatal(format!(
            "target has {bytes} bytes; the limit for reaction {reaction} is {limit}"
        ))
    })?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(target: impl Into<String>) -> Result<ItemKey, HandlerError> {
        check(&ReactionName::new("ship").unwrap(), target.into())
    }

    #[test]
    fn a_target_that_is_not_a_valid_key_is_a_fatal_error() {
        assert!(routed("order-7").is_ok());
        assert!(routed("~links/x").unwrap_err().to_string().contains("begins with ~"));
        assert!(routed("").is_err());
        assert!(routed("x".repeat(244)).is_ok());
        assert!(
            routed("x".repeat(245))
                .unwrap_err()
                .to_string()
                .contains("limit for reaction ship is 244")
        );
    }
}
