//! What a scope is about, and how long it lives without being changed.

use std::borrow::Cow;
use std::time::Duration;

/// A kind of scope: its name, and for how long a scope of this kind outlives its last change.
///
/// Two scopes of different kinds never meet, whatever their ids. The life is counted by the store's
/// clock, from the last change on; in memory a scope lives for as long as somebody has a handle on
/// it, whatever its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopeKind {
    name: Cow<'static, str>,
    lives: Option<Duration>,
}

impl ScopeKind {
    /// What belongs to one request. Gone a quarter of an hour after its last change.
    pub const REQUEST: Self = Self::lasting("request", Some(Duration::from_secs(15 * 60)));
    /// What belongs to one session. Gone a day after its last change.
    pub const SESSION: Self = Self::lasting("session", Some(Duration::from_secs(24 * 3600)));
    /// What belongs to one user. Stays until it is deleted.
    pub const USER: Self = Self::lasting("user", None);
    /// What belongs to one organization. Stays until it is deleted.
    pub const ORG: Self = Self::lasting("org", None);

    const fn lasting(name: &'static str, lives: Option<Duration>) -> Self {
        Self { name: Cow::Borrowed(name), lives }
    }

    /// A kind of your own, whose scopes stay until they are deleted.
    ///
    /// The name is not empty, does not begin with `~` and has no `/` in it; a scope of a kind that
    /// breaks this says so when it is first used.
    pub fn custom(name: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), lives: None }
    }

    /// The same, whose scopes go away this long after their last change.
    #[must_use]
    pub fn ttl(mut self, long: Duration) -> Self {
        self.lives = Some(long);
        self
    }

    /// The same, whose scopes stay until they are deleted.
    #[must_use]
    pub fn without_ttl(mut self) -> Self {
        self.lives = None;
        self
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// For how long a scope outlives its last change; for ever if this is none.
    pub fn lives(&self) -> Option<Duration> {
        self.lives
    }
}
