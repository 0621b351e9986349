//! Who asks.

use std::sync::Arc;

use super::role::Role;

/// Who asks, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of the token; nothing if there are no tokens.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) role: Role,
}

impl Caller {
    /// Whoever reaches a server without tokens.
    pub(crate) const ANYBODY: Self = Self { name: None, role: Role::Reader };

    /// As it is shown.
    pub(crate) fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or("anybody")
    }
}
