//! What a store can do beyond the contract, as data.
//!
//! The contract is the same everywhere; this says what its user may rely on around it.
//! Documentation and the conformance suite read it, so that a skipped case is always a declared
//! one.

use serde::Serialize;

/// What one store can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Capabilities {
    /// The adapter's name, as in its URL.
    pub name: &'static str,
    /// What was committed is there after the process ends, and after the machine loses power.
    pub durable: bool,
    /// Several processes can use it at once.
    pub shared: bool,
}

impl Capabilities {
    /// The capabilities of an adapter.
    pub const fn new(name: &'static str, durable: bool, shared: bool) -> Self {
        Self { name, durable, shared }
    }
}
