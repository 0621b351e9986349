//! Names given by an operator that do not exist in the store.
//!
//! Operator commands (unblock, reset, defer, prioritize) select items. A pattern that matches
//! nothing is valid and selects nothing; an exact name that does not exist is a mistake, and is
//! reported.

use std::fmt;

use tidelock_store::{ItemFilter, ItemQuery, NamePattern, Result, Store, StoreExt};

/// A name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Missing {
    /// No reaction of this name was ever registered.
    Reaction {
        /// The name.
        name: String,
        /// A similar name that exists.
        near: Option<String>,
    },
    /// No workflow of this name was ever registered, and no run of it waits.
    Workflow {
        /// The name.
        name: String,
        /// A similar name that exists.
        near: Option<String>,
    },
    /// No target has this name.
    Target {
        /// The name.
        name: String,
    },
    /// No queue of this name has items.
    Queue {
        /// The name.
        name: String,
    },
    /// No item has this key.
    Item {
        /// The key.
        key: String,
        /// The queue, if one was given.
        queue: Option<String>,
    },
    /// None of the selected items is in this lane.
    Lane {
        /// The name.
        name: String,
    },
}

impl Missing {
    /// Returns the first given name that no item has: queue, then key, then lane.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn among_items(store: &dyn Store, meant: &ItemFilter) -> Result<Option<Self>> {
        let queue = only(&meant.queue).map(str::to_owned);
        let mut filter = ItemFilter { queue: meant.queue.clone(), ..ItemFilter::default() };
        if let Some(name) = queue.clone()
            && !is_any(store, &filter).await?
        {
            return Ok(Some(Self::Queue { name }));
        }
        filter.key = meant.key.clone();
        if let Some(key) = only(&meant.key)
            && !is_any(store, &filter).await?
        {
            return Ok(Some(Self::Item { key: key.to_owned(), queue }));
        }
        Self::lane(store, &[filter], meant).await
    }

    /// Returns the lane, if none of the selected items is in it.
    pub(crate) async fn lane(
        store: &dyn Store,
        filters: &[ItemFilter],
        meant: &ItemFilter,
    ) -> Result<Option<Self>> {
        let Some(lane) = &meant.lane else { return Ok(None) };
        for filter in filters {
            let inside = ItemFilter {
                lane: Some(lane.clone()),
                blocked: None,
                held: None,
                ..filter.clone()
            };
            if is_any(store, &inside).await? {
                return Ok(None);
            }
        }
        Ok(Some(Self::Lane { name: lane.to_string() }))
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reaction { name, near: None } => write!(f, "there is no reaction {name:?}"),
            Self::Reaction { name, near: Some(near) } => {
                write!(f, "there is no reaction {name:?}; did you mean {near:?}?")
            }
            Self::Workflow { name, near: None } => write!(f, "there is no workflow {name:?}"),
            Self::Workflow { name, near: Some(near) } => {
                write!(f, "there is no workflow {name:?}; did you mean {near:?}?")
            }
            Self::Target { name } => write!(f, "there is no target {name:?}"),
            Self::Queue { name } => write!(f, "there is no item in queue {name:?}"),
            Self::Item { key, queue: Some(queue) } => {
                write!(f, "there is no item {key:?} in queue {queue:?}")
            }
            Self::Item { key, queue: None } => write!(f, "there is no item {key:?}"),
            Self::Lane { name } => write!(f, "there is nothing in lane {name:?} of what is meant"),
        }
    }
}

/// Returns the name, if the pattern is a single exact name.
pub(crate) fn only(names: &NamePattern) -> Option<&str> {
    match names {
        NamePattern::OneOf(names) => names.first().map(String::as_str).filter(|_| names.len() == 1),
        _ => None,
    }
}

/// Whether any item matches.
pub(crate) async fn is_any(store: &dyn Store, filter: &ItemFilter) -> Result<bool> {
    Ok(store.rows(ItemQuery::new(filter.clone()).limit(1)).next().await?.is_some())
}

/// Returns the most similar of these names, if one is similar enough.
pub(crate) fn near<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Option<String> {
    let alike = names.map(|other| (steps(name, other), other)).min();
    let most = 1 + name.chars().count() / 4;
    alike.filter(|(steps, _)| *steps <= most).map(|(_, other)| other.to_owned())
}

/// Edit distance with transpositions (Damerau-Levenshtein, optimal string alignment).
fn steps(one: &str, other: &str) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=other.len()).collect()];
    for (i, a) in one.iter().enumerate() {
        let (mut row, last) = (vec![i + 1], &rows[i]);
        for (j, b) in other.iter().enumerate() {
            let mut least = (last[j] + usize::from(a != b)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                least = least.min(rows[i - 1][j - 1] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_suggested() {
        let names = ["mail", "tour", "invoices"];
        let near = |name: &str| near(name, names.into_iter());
        for (wrong, right) in
            [("mial", "mail"), ("mai", "mail"), ("maill", "mail"), ("invocies", "invoices")]
        {
            assert_eq!(near(wrong).as_deref(), Some(right));
        }
        assert_eq!((near("post"), near("")), (None, None));
    }
}
