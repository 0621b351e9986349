//! Validated schema names.
//!
//! Statements are text that contains this name. So it is validated once, against characters that
//! need no quoting and cannot end a statement.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use tidelock_store::{Result, StoreError};

/// The longest name; PostgreSQL allows 63 bytes, and the rest is for objects named after the
/// schema.
const LONGEST: usize = 48;

/// A schema's name: lower-case letters, digits and underscores.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SchemaName(Arc<str>);

impl SchemaName {
    /// Validates the name.
    ///
    /// # Errors
    /// `Invalid` unless it has the form `[a-z_][a-z0-9_]*`, is at most 48 bytes long, and is not
    /// one of PostgreSQL's own (`pg_…`).
    pub fn new(name: impl Into<Arc<str>>) -> Result<Self> {
        let name = name.into();
        if is_plain(&name) && name.len() <= LONGEST && !name.starts_with("pg_") {
            return Ok(Self(name));
        }
        Err(StoreError::invalid(format!(
            "schema {name:?}: must be small letters, digits and underscores, not begin with a digit or pg_, and have at \
             most {LONGEST} bytes"
        )))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_plain(name: &str) -> bool {
    let starts = |c: char| c == '_' || c.is_ascii_lowercase();
    name.starts_with(starts) && name.chars().all(|c| starts(c) || c.is_ascii_digit())
}

impl Default for SchemaName {
    fn default() -> Self {
        Self("tidelock".into())
    }
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl FromStr for SchemaName {
    type Err = StoreError;

    fn from_str(name: &str) -> Result<Self> {
        Self::new(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_need_quoting_is_refused() {
        for good in ["tidelock", "_", "shop_2", &"a".repeat(48)] {
            assert_eq!(SchemaName::new(good).unwrap().as_str(), good);
        }
        for bad in
            ["", "2shop", "Shop", "shop-2", "a\"; drop schema b", "pg_shop", "é", &"a".repeat(49)]
        {
            let refused = SchemaName::new(bad).unwrap_err().to_string();
            assert!(refused.contains(&format!("{bad:?}")), "{refused}");
        }
    }
}
