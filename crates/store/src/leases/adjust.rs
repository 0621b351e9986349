//! Bulk operations on work items, and the filter that selects them.

use serde::{Deserialize, Serialize};

use super::Item;
use crate::clock::{Timestamp, When};
use crate::error::Result;
use crate::limits;
use crate::log::check_names;
use crate::names::{LaneName, check_prefix};
use crate::numbers::{Mark, Priority};

/// A pattern over names. Matching takes linear time in the name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamePattern {
    /// Every name.
    #[default]
    Any,
    /// These names.
    OneOf(Vec<String>),
    /// A glob: `*` matches any characters and `?` matches one.
    Like(String),
}

impl NamePattern {
    /// Matches this name only.
    pub fn is(name: impl Into<String>) -> Self {
        Self::OneOf(vec![name.into()])
    }

    /// Matches a glob with `*` and `?`.
    pub fn like(pattern: impl Into<String>) -> Self {
        Self::Like(pattern.into())
    }

    /// Whether the name matches.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(names) => names.iter().any(|n| n == name),
            Self::Like(pattern) => glob(pattern, name),
        }
    }

    /// The common prefix of all matching names, for an index lookup.
    pub fn prefix(&self) -> &str {
        match self {
            Self::Any => "",
            Self::OneOf(names) => names.split_first().map_or("", |(first, rest)| {
                rest.iter().fold(first.as_str(), |prefix, name| common(prefix, name))
            }),
            Self::Like(pattern) => pattern.split(['*', '?']).next().unwrap_or_default(),
        }
    }

    fn check(&self, what: &str, limit: usize) -> Result<()> {
        match self {
            Self::Any => Ok(()),
            // Characters that no name can have are refused: some stores could not even query for
            // them.
            Self::OneOf(names) => {
                check_names(names.len())?;
                names.iter().try_for_each(|name| check_prefix(name, what, limit))
            }
            Self::Like(pattern) => check_prefix(pattern, &format!("{what} pattern"), limit),
        }
    }
}

/// The common prefix of two strings.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let same = one.char_indices().zip(other.chars()).find(|((_, a), b)| a != b);
    let end = same.map_or(one.len().min(other.len()), |((at, _), _)| at);
    &one[..end]
}

/// Matches a glob by remembering only the last star: each character of the name is examined once
/// per star.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// A filter over items. An item passes if it passes every part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ItemFilter {
    /// Its queue.
    pub queue: NamePattern,
    /// Its key.
    pub key: NamePattern,
    /// Its lane.
    pub lane: Option<LaneName>,
    /// Blocked, or not.
    pub blocked: Option<bool>,
    /// Leased (past the deadline or not), or not.
    pub held: Option<bool>,
}

impl ItemFilter {
    /// Selects every item of this queue.
    pub fn queue(queue: impl Into<String>) -> Self {
        Self { queue: NamePattern::is(queue), ..Self::default() }
    }

    /// Restricts the filter to matching keys.
    #[must_use]
    pub fn key(mut self, key: NamePattern) -> Self {
        self.key = key;
        self
    }

    /// Restricts the filter to one lane.
    #[must_use]
    pub fn lane(mut self, lane: LaneName) -> Self {
        self.lane = Some(lane);
        self
    }

    /// Restricts the filter to items that are blocked, or that are not.
    #[must_use]
    pub fn blocked(mut self, blocked: bool) -> Self {
        self.blocked = Some(blocked);
        self
    }

    /// Restricts the filter to items that are leased, or that are not.
    #[must_use]
    pub fn held(mut self, held: bool) -> Self {
        self.held = Some(held);
        self
    }

    /// Whether the item passes.
    pub fn matches(&self, item: &Item) -> bool {
        self.queue.matches(item.item.queue.as_str())
            && self.key.matches(item.item.key.as_str())
            && self.lane.as_ref().is_none_or(|lane| *lane == item.lane)
            && self.blocked.is_none_or(|blocked| blocked == item.blocked)
            && self.held.is_none_or(|held| held == item.holder.is_some())
    }

    /// The queue and key of the one item that the filter names, if it names exactly one. A store
    /// finds it by that name, however many items there are (READ-1). The item need not exist.
    pub fn one(&self) -> Option<(&str, &str)> {
        match (&self.queue, &self.key) {
            (NamePattern::OneOf(queues), NamePattern::OneOf(keys)) => {
                match (&queues[..], &keys[..]) {
                    ([queue], [key]) => Some((queue, key)),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Validates the filter.
    pub fn check(&self) -> Result<()> {
        self.queue.check("queue", limits::QUEUE_NAME_BYTES)?;
        self.key.check("key", limits::ITEM_KEY_BYTES)
    }
}

/// An operation on an item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Adjustment {
    /// A blocked item resumes immediately where it stopped, with its counts at zero. Other items do
    /// not change.
    Unblock,
    /// Moves the item back to a mark, unblocked, without a hold, with its counts at zero. It is due
    /// immediately if there is work after the mark, or if it was leased. Its holder loses the
    /// lease.
    Reset {
        /// The mark to go back to.
        to: Mark,
    },
    /// The item is not leased before this moment. A current lease is not affected.
    Defer {
        /// The earliest moment.
        until: When,
    },
    /// Sets the priority.
    Prioritize {
        /// The new priority.
        priority: Priority,
    },
    /// Moves the item to another lane.
    Move {
        /// The new lane.
        lane: LaneName,
    },
    /// Forgets an idle item (no work, not leased, not blocked) after this moment, unless it is
    /// woken before. Other items do not change.
    Forget {
        /// The moment.
        when: When,
    },
}

impl Adjustment {
    /// Applies the operation; returns whether the item changed.
    pub fn apply(&self, item: &mut Item, now: Timestamp) -> bool {
        let before = item.clone();
        match self {
            Self::Unblock => {
                if item.blocked {
                    item.blocked = false;
                    item.error = None;
                    item.hold = None;
                    item.reset_counts();
                    item.is_due_from(now);
                }
            }
            Self::Reset { to } => item.reset(*to, now),
            Self::Defer { until } => item.hold = Some(until.resolve(now)),
            Self::Prioritize { priority } => item.priority = *priority,
            Self::Move { lane } => item.lane = lane.clone(),
            Self::Forget { when } => {
                if item.is_idle() {
                    item.forget_at = Some(when.resolve(now));
                }
            }
        }
        *item != before
    }

    /// Validates the operation.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Defer { until } => until.check("deferral"),
            Self::Forget { when } => when.check("forgetting"),
            _ => Ok(()),
        }
    }
}

impl Item {
    fn reset(&mut self, to: Mark, now: Timestamp) {
        if self.holder.take().is_some() {
            // The holder's fence must never be valid again, or its ack would undo the reset.
            self.fence = self.fence.map(|fence| fence.plus(1));
            self.is_due_from(now);
        }
        self.settled = None;
        self.at = to;
        self.mark = self.mark.max(to);
        self.blocked = false;
        self.error = None;
        self.hold = None;
        self.reset_counts();
        if self.at < self.mark {
            self.is_due_from(now);
        }
    }
}

/// How many items passed the filter, and how many of them changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Adjusted {
    /// Items that passed the filter.
    pub matched: u64,
    /// Items that changed.
    pub changed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreErrorKind;

    #[test]
    fn a_pattern_matches_what_it_says() {
        let cases = [
            ("*", "", true),
            ("mail-*", "mail-", true),
            ("mail-*", "email-1", false),
            ("*-out", "webhooks-out", true),
            ("*-out", "webhooks-outer", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("é*", "éa", true),
            ("", "", true),
            ("", "a", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(
                NamePattern::like(pattern).matches(name),
                expected,
                "{pattern:?} on {name:?}"
            );
        }
    }

    #[test]
    fn names_are_looked_up_by_what_they_have_in_common() {
        let prefix = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            NamePattern::OneOf(names).prefix().to_owned()
        };
        assert_eq!(prefix(&["order-17"]), "order-17");
        assert_eq!(prefix(&["order-17", "order-1", "order-19"]), "order-1");
        assert_eq!(prefix(&["aé", "aè"]), "a");
        assert_eq!(prefix(&["a", "b"]), "");
        assert_eq!(prefix(&[]), "");
    }

    #[test]
    fn what_no_name_can_have_in_it_is_not_looked_for() {
        let check = |key: NamePattern| ItemFilter::default().key(key).check().map_err(|e| e.kind());
        for odd in ["a\0", "*\n"] {
            assert_eq!(check(NamePattern::like(odd)), Err(StoreErrorKind::Invalid));
            assert_eq!(check(NamePattern::is(odd)), Err(StoreErrorKind::Invalid));
        }
        assert_eq!(check(NamePattern::like("x".repeat(257))), Err(StoreErrorKind::LimitExceeded));
        assert_eq!((check(NamePattern::like("")), check(NamePattern::is(""))), (Ok(()), Ok(())));
    }

    #[test]
    fn a_hostile_pattern_ends() {
        let pattern = "*a".repeat(120) + "b";
        assert!(!NamePattern::like(pattern).matches(&"a".repeat(256)));
    }
}
