//! Which targets of which reactions are meant.

use tidelock_store::{ItemFilter, LaneName, NamePattern};

use crate::missing::only;
use crate::reactions::keys;
use crate::reactions::router::Cursor;

/// Which targets are meant: those that pass every part of it. By default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReactionFilter {
    reactions: NamePattern,
    targets: NamePattern,
    sources: Option<String>,
    blocked: Option<bool>,
    lane: Option<LaneName>,
}

impl ReactionFilter {
    /// Every target of every reaction.
    pub fn all() -> Self {
        Self::default()
    }

    /// Every target of this reaction.
    pub fn named(reaction: &str) -> Self {
        Self::all().reactions(NamePattern::is(reaction))
    }

    /// The same, of reactions whose names are like this.
    #[must_use]
    pub fn reactions(mut self, names: NamePattern) -> Self {
        self.reactions = names;
        self
    }

    /// The same, this target only.
    #[must_use]
    pub fn target(self, target: &str) -> Self {
        self.targets(NamePattern::is(target))
    }

    /// The same, targets whose names are like this.
    #[must_use]
    pub fn targets(mut self, names: NamePattern) -> Self {
        self.targets = names;
        self
    }

    /// The same, fed by streams whose names begin with this: targets that are such streams, and
    /// computed targets of reactions that follow such streams only.
    #[must_use]
    pub fn sources(mut self, prefix: impl Into<String>) -> Self {
        self.sources = Some(prefix.into());
        self
    }

    /// The same, blocked or not.
    #[must_use]
    pub fn blocked(mut self, blocked: bool) -> Self {
        self.blocked = Some(blocked);
        self
    }

    /// The same, in this lane.
    #[must_use]
    pub fn lane(mut self, lane: LaneName) -> Self {
        self.lane = Some(lane);
        self
    }

    /// The reaction, if it is one that is meant.
    pub(super) fn reaction(&self) -> Option<&str> {
        only(&self.reactions)
    }

    /// The target, if it is one that is meant.
    pub(super) fn only_target(&self) -> Option<&str> {
        only(&self.targets)
    }

    /// The same, in whatever state and lane.
    pub(super) fn in_any_state(&self) -> Self {
        Self { blocked: None, lane: None, ..self.clone() }
    }

    pub(super) fn needs_sources(&self) -> bool {
        self.sources.is_some()
    }

    /// The items that are meant, whatever feeds them.
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

    /// The items that are meant and fed by the streams that are meant, one filter for each
    /// reaction.
    pub(super) fn fed_by_sources(&self, cursors: &[(String, Cursor)]) -> Vec<ItemFilter> {
        let prefix = self.sources.as_deref().unwrap_or_default();
        let meant = cursors.iter().filter(|(name, _)| self.reactions.matches(name));
        meant.filter_map(|(name, cursor)| self.fed_by(name, cursor, prefix)).collect()
    }

    fn fed_by(&self, name: &str, cursor: &Cursor, prefix: &str) -> Option<ItemFilter> {
        let filter = Self { reactions: NamePattern::is(name), sources: None, ..self.clone() };
        if cursor.computed {
            return cursor.streams.starts_with(prefix).then(|| filter.items());
        }
        let key = match self.targets {
            NamePattern::Any => NamePattern::Like(format!("{prefix}*")),
            // Both must hold, and a pattern is only one: the store is asked for what the caller
            // named.
            ref named if named.prefix().starts_with(prefix) => named.clone(),
            _ => return None,
        };
        Some(ItemFilter { key, ..filter.items() })
    }
}
