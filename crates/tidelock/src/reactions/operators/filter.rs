//! Filters of reactions and their targets.

use tidelock_store::{ItemFilter, LaneName, NamePattern};

use crate::missing::only;
use crate::reactions::keys;
use crate::reactions::router::Cursor;

/// Selects targets that match all of its criteria. The default matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReactionFilter {
    reactions: NamePattern,
    targets: NamePattern,
    sources: Option<String>,
    blocked: Option<bool>,
    lane: Option<LaneName>,
}

impl ReactionFilter {
    /// Matches every target of every reaction.
    pub fn all() -> Self {
        Self::default()
    }

    /// Matches every target of this reaction.
    pub fn named(reaction: impl AsRef<str>) -> Self {
        Self::all().reactions(NamePattern::is(reaction.as_ref()))
    }

    /// Restricts to reactions whose names match.
    #[must_use]
    pub fn reactions(mut self, names: NamePattern) -> Self {
        self.reactions = names;
        self
    }

    /// Restricts to this target.
    #[must_use]
    pub fn target(self, target: impl AsRef<str>) -> Self {
        self.targets(NamePattern::is(target.as_ref()))
    }

    /// Restricts to targets whose names match.
    #[must_use]
    pub fn targets(mut self, names: NamePattern) -> Self {
        self.targets = names;
        self
    }

    /// Restricts to targets fed by streams with this prefix.
    ///
    /// These are targets that are such streams, and computed targets of reactions that only follow
    /// such streams.
    #[must_use]
    pub fn sources(mut self, prefix: impl Into<String>) -> Self {
        self.sources = Some(prefix.into());
        self
    }

    /// Restricts to blocked, or to unblocked, targets.
    #[must_use]
    pub fn blocked(mut self, blocked: bool) -> Self {
        self.blocked = Some(blocked);
        self
    }

    /// Restricts to this lane.
    #[must_use]
    pub fn lane(mut self, lane: LaneName) -> Self {
        self.lane = Some(lane);
        self
    }

    /// The reaction, if the filter names exactly one.
    pub(super) fn reaction(&self) -> Option<&str> {
        only(&self.reactions)
    }

    /// The target, if the filter names exactly one.
    pub(super) fn only_target(&self) -> Option<&str> {
        only(&self.targets)
    }

    /// The same names, in any state and lane.
    pub(super) fn in_any_state(&self) -> Self {
        Self { blocked: None, lane: None, ..self.clone() }
    }

    pub(super) fn needs_sources(&self) -> bool {
        self.sources.is_some()
    }

    /// The item filter, without the source streams.
    pub(super) fn items(&self) -> ItemFilter {
        let queue = match &self.reactions {
            NamePattern::Any => NamePattern::Like(keys::queues()),
            NamePattern::OneOf(names) => {
                NamePattern::OneOf(names.iter().map(|n| keys::queue_named(n)).collect())
            }
            NamePattern::Like(pattern) => NamePattern::Like(keys::queue_named(pattern)),
        };
        let lane = self.lane.clone();
        ItemFilter { queue, key: self.targets.clone(), lane, blocked: self.blocked, held: None }
    }

    /// One item filter per reaction, with the source streams.
    pub(super) fn fed_by_sources(&self, cursors: &[(String, Cursor)]) -> Vec<ItemFilter> {
        let prefix = self.sources.as_deref().unwrap_or_default();
        let matching = cursors.iter().filter(|(name, _)| self.reactions.matches(name));
        matching.filter_map(|(name, cursor)| self.fed_by(name, cursor, prefix)).collect()
    }

    fn fed_by(&self, name: &str, cursor: &Cursor, prefix: &str) -> Option<ItemFilter> {
        let filter = Self { reactions: NamePattern::is(name), sources: None, ..self.clone() };
        if cursor.computed {
            return cursor.streams.starts_with(prefix).then(|| filter.items());
        }
        let key = match self.targets {
            NamePattern::Any => NamePattern::Like(format!("{prefix}*")),
            // Both must match, but an item filter has one pattern: the store gets the caller's.
            ref named if named.prefix().starts_with(prefix) => named.clone(),
            _ => return None,
        };
        Some(ItemFilter { key, ..filter.items() })
    }
}
