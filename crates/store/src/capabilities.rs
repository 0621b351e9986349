//! Store capabilities: what an adapter offers beyond the contract, as data.
//!
//! The contract is the same everywhere. Documentation and the conformance suite read these flags,
//! so a skipped case is always a declared one.

use serde::Serialize;

/// Capabilities of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// The adapter's name, as in its URL.
    pub name: &'static str,
    /// Committed data survives the end of the process and a power failure.
    pub durable: bool,
    /// Several processes can use the store at once.
    pub shared: bool,
}

impl Capabilities {
    /// Creates the capabilities of an adapter.
    pub const fn new(name: &'static str, durable: bool, shared: bool) -> Self {
        Self { name, durable, shared }
    }
}
