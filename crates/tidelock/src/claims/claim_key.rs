//! Name of a claim: its kind and what it is on, readable for operators.
//!
//! A key is built from its parts and never written by hand, so that two claims do not share a key
//! by accident, and the store's records say what each claim is about:
//! `singleton/prayer/child-7/2026-11-15`.

use std::fmt;

/// Prefix of a part that is a period, and the escape for a part that only looks like one.
const PER: &str = "per ";
const NO_PER: &str = "%70er ";

/// Name of a claim: its kind and its parts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClaimKey {
    /// Kind and escaped parts, separated by slashes.
    path: String,
    kind: &'static str,
    /// Whether a part was empty.
    incomplete: bool,
}

impl ClaimKey {
    pub(super) fn new(kind: &'static str, name: &impl fmt::Display) -> Self {
        Self { path: kind.to_owned(), kind, incomplete: false }.part(name)
    }

    /// Appends a part.
    pub(super) fn part(mut self, part: &impl fmt::Display) -> Self {
        let part = part.to_string();
        self.incomplete |= part.is_empty();
        self.path.push('/');
        match part.strip_prefix(PER) {
            // Only a period starts like this.
            Some(rest) => {
                self.path.push_str(NO_PER);
                push_escaped(&mut self.path, rest);
            }
            None => push_escaped(&mut self.path, &part),
        }
        self
    }

    /// Appends a period. Its prefix distinguishes it from every other part.
    pub(super) fn per(mut self, period: &impl fmt::Display) -> Self {
        let part = period.to_string();
        self.incomplete |= part.is_empty();
        self.path.push('/');
        self.path.push_str(PER);
        push_escaped(&mut self.path, &part);
        self
    }

    /// Returns the kind: `idempotency`, `singleton`, `lock` or `quota`.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the whole key, as displayed.
    pub fn as_str(&self) -> &str {
        &self.path
    }

    /// Whether a part is empty, which is invalid.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete
    }
}

/// Escapes slashes, so that no key is below another.
fn push_escaped(path: &mut String, part: &str) {
    for c in part.chars() {
        match c {
            '%' => path.push_str("%25"),
            '/' => path.push_str("%2F"),
            c => path.push(c),
        }
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
    fn a_key_contains_its_parts() {
        let key = ClaimKey::new("singleton", &"prayer").part(&"child-7").part(&"2026-11-15");
        assert_eq!(
            (key.kind(), key.as_str()),
            ("singleton", "singleton/prayer/child-7/2026-11-15")
        );
    }

    #[test]
    fn no_two_claims_share_a_key() {
        let apart = ClaimKey::new("lock", &"a").part(&"b");
        assert_ne!(apart, ClaimKey::new("lock", &"a/b"));
        assert_ne!(ClaimKey::new("lock", &"a/b"), ClaimKey::new("lock", &"a%2Fb"));
        assert!(ClaimKey::new("lock", &"").is_incomplete() && !apart.is_incomplete());
        let quota = || ClaimKey::new("quota", &"points");
        assert_eq!(
            quota().per(&"day in Europe/Berlin").as_str(),
            "quota/points/per day in Europe%2FBerlin"
        );
        assert_ne!(quota().per(&"day"), quota().part(&"per day"));
        assert_ne!(quota().part(&"per day"), quota().part(&"%70er day"));
    }
}
