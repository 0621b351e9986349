//! The state of most cases, and common calls.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tidelock::prelude::*;
use tidelock::scopes::ScopeState;

#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Basket {
    pub(crate) items: Vec<String>,
    pub(crate) total: i64,
    pub(crate) flags: BTreeMap<String, bool>,
}

/// A kind without a TTL.
pub(crate) fn baskets() -> ScopeKind {
    ScopeKind::custom("basket")
}

/// The basket that all callers share.
pub(crate) fn shared(tidelock: &Tidelock) -> Scope<Basket> {
    tidelock.scope(baskets(), "shared")
}

/// A basket in memory.
pub(crate) fn in_memory() -> Scope<Basket> {
    Scope::in_memory(baskets(), "here", Basket::default())
}

/// Appends an item.
pub(crate) async fn put(scope: &Scope<Basket>, item: &str) {
    scope.push("items", item).await.unwrap();
}

/// The scope's revision.
pub(crate) async fn revision<S: ScopeState>(scope: &Scope<S>) -> Option<u64> {
    scope.load().await.unwrap().revision.map(tidelock::store::Revision::get)
}
