//! Events: state folded from a stream, and decisions on it.
//!
//! The pattern only builds commits and hands them to the store. Every name that it uses there is spelled in `keys.rs`.

#[allow(dead_code)] // aggregates and reactions come next
pub(crate) mod encoded;
#[allow(dead_code)]
pub(crate) mod keys;
pub(crate) mod personal;

pub use personal::Personal;
