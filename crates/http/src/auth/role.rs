//! Roles: read, write, operate.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use utoipa::ToSchema;

/// What a caller can do. Each role includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads everything.
    Reader,
    /// Also appends, claims, leases, starts and signals: what programs do.
    Writer,
    /// Also unblocks, resets, defers, cancels and resolves: what people do when something is wrong.
    Operator,
}

impl Role {
    /// All roles, lowest first.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Writer, Self::Operator];

    /// The role's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(())
    }
}
