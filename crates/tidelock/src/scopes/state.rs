//! State types of scopes.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A type that can be the state of a scope: cloneable, comparable, serializable, with a default.
///
/// Implemented for every such type, including `serde_json::Value` for documents without a fixed
/// schema.
pub trait ScopeState:
    Serialize + DeserializeOwned + Default + Clone + PartialEq + Send + Sync + 'static
{
}

impl<S: Serialize + DeserializeOwned + Default + Clone + PartialEq + Send + Sync + 'static>
    ScopeState for S
{
}
