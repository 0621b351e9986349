//! The caller of a request.

use std::sync::Arc;

use super::role::Role;

/// The caller of a request, and its role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The name of the token; `None` if the server has no tokens.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) role: Role,
}

impl Caller {
    /// The caller of a server without tokens.
    pub(crate) const ANONYMOUS: Self = Self { name: None, role: Role::Reader };

    /// The name to display.
    pub(crate) fn shown(&self) -> &str {
        self.name.as_deref().unwrap_or("anonymous")
    }
}
