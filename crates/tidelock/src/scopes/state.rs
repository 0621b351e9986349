//! What can be the state of a scope.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What can be the state of a scope: a type with a beginning that can be copied, compared, and
/// written as JSON. Nobody has to implement this; every type that fits has it. `serde_json::Value`
/// fits, for documents whose shape only their users know.
pub trait ScopeState:
    Serialize + DeserializeOwned + Default + Clone + PartialEq + Send + Sync + 'static
{
}

impl<S: Serialize + DeserializeOwned + Default + Clone + PartialEq + Send + Sync + 'static>
    ScopeState for S
{
}
