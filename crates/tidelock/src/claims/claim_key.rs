//! The name of a claim: what kind of right it is, and to what, in words that an operator can read.
//!
//! A key is put together from its parts and never written by hand, so that no two rights share one by accident and a look at
//! the store says what each is about: `singleton/prayer/child-7/2026-11-15`.

use std::fmt;

/// Names a claim: its kind, and what it is on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    /// Kind and parts, each without a slash of its own.
    path: String,
    kind: &'static str,
    /// Whether some part was empty.
    hollow: bool,
}

impl ClaimKey {
    pub(super) fn new(kind: &'static str, name: &impl fmt::Display) -> Self {
        Self { path: kind.to_owned(), kind, hollow: false }.part(name)
    }

    /// The same, and this part.
    pub(super) fn part(mut self, part: &impl fmt::Display) -> Self {
        let part = part.to_string();
        self.hollow |= part.is_empty();
        self.path.push('/');
        // Without a slash in it, so that no key is among the parts of another.
        for c in part.chars() {
            match c {
                '%' => self.path.push_str("%25"),
                '/' => self.path.push_str("%2F"),
                c => self.path.push(c),
            }
        }
        self
    }

    /// What kind of right it is: `idempotency`, `singleton`, `lock` or `quota`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// The whole key, as it is shown to people.
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// Whether some part is empty, which names nothing.
    pub(super) fn is_hollow(&self) -> bool {
        self.hollow
    }
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl fmt::Debug for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.path, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_what_it_is_about() {
        let key = ClaimKey::new("singleton", &"prayer").part(&"child-7").part(&"2026-11-15");
        assert_eq!((key.kind(), key.as_str()), ("singleton", "singleton/prayer/child-7/2026-11-15"));
    }

    #[test]
    fn no_two_rights_share_a_key() {
        let apart = ClaimKey::new("lock", &"a").part(&"b");
        assert_ne!(apart, ClaimKey::new("lock", &"a/b"));
        assert_ne!(ClaimKey::new("lock", &"a/b"), ClaimKey::new("lock", &"a%2Fb"));
        assert!(ClaimKey::new("lock", &"").is_hollow() && !apart.is_hollow());
    }
}
