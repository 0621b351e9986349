//! Whether a unit of work has landed, for what it handed out before its commit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Shared between a unit of work and what it handed out. Two of them are always equal: they are no
/// part of a value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Landing(Arc<AtomicBool>);

impl Landing {
    pub(crate) fn landed(&self) {
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn has_landed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl PartialEq for Landing {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Landing {}
