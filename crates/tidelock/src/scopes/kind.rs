//! Scope kinds: a name and a time to live.

use std::borrow::Cow;
use std::time::Duration;

/// A kind of scope: its name and the time to live of its scopes.
///
/// Scopes of different kinds never share an id space. The TTL counts from the last change, by the
/// store's clock. A scope in memory lives as long as a handle to it exists, whatever its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeKind {
    name: Cow<'static, str>,
    ttl: Option<Duration>,
}

impl ScopeKind {
    /// Scope of one request. Expires 15 minutes after its last change.
    pub const REQUEST: Self = Self::lasting("request", Some(Duration::from_secs(15 * 60)));
    /// Scope of one session. Expires a day after its last change.
    pub const SESSION: Self = Self::lasting("session", Some(Duration::from_secs(24 * 3600)));
    /// Scope of one user. Exists until it is deleted.
    pub const USER: Self = Self::lasting("user", None);
    /// Scope of one organization. Exists until it is deleted.
    pub const ORG: Self = Self::lasting("org", None);

    const fn lasting(name: &'static str, ttl: Option<Duration>) -> Self {
        Self { name: Cow::Borrowed(name), ttl }
    }

    /// Creates a custom kind without a TTL.
    ///
    /// The name must not be empty, start with `~`, or contain a `/`. An invalid name is reported by
    /// the first use of a scope of this kind.
    pub fn custom(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), ttl: None }
    }

    /// Sets the time to live: scopes expire this long after their last change.
    #[must_use]
    pub fn ttl(mut self, long: Duration) -> Self {
        self.ttl = Some(long);
        self
    }

    /// Removes the time to live: scopes exist until they are deleted.
    #[must_use]
    pub fn without_ttl(mut self) -> Self {
        self.ttl = None;
        self
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the time to live; `None` if scopes of this kind never expire.
    pub fn time_to_live(&self) -> Option<Duration> {
        self.ttl
    }
}
