//! Edits: changes inside a JSON document that the store itself makes.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::pointer::Pointer;
use crate::error::{Result, StoreError};
use crate::json::RawJson;
use crate::limits;

/// A change inside a JSON document.
///
/// `at` addresses a value: a plain name is a field of the document, `/limits/daily` a nested one
/// (JSON pointer, RFC 6901), and `""` the whole document. Objects that lead to it are created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Edit {
    /// Adds to an integer, zero if absent. It gives the sum.
    Increment {
        /// The integer.
        at: String,
        /// What is added.
        by: i64,
    },
    /// Appends to a list, empty if absent. It gives the length.
    Push {
        /// The list.
        at: String,
        /// The new last item.
        item: RawJson,
    },
    /// Sets an entry of an object, empty if absent. It gives 1 if that changed the document, else
    /// 0.
    SetEntry {
        /// The object.
        at: String,
        /// The entry's key.
        key: String,
        /// The entry.
        value: RawJson,
    },
    /// Removes an entry of an object. It gives 1 if there was one, else 0.
    RemoveEntry {
        /// The object.
        at: String,
        /// The entry's key.
        key: String,
    },
    /// Merges a patch into the document (JSON merge patch, RFC 7396). It gives 1 if that changed
    /// the document, else 0.
    Merge(RawJson),
}

/// Why an edit does not fit a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit(pub String);

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unfit {}

impl Edit {
    /// Edits a document, and returns the number that the edit gives. An absent document is `null`.
    ///
    /// # Errors
    /// If the document has something else where the edit needs a number, a list or an object. It
    /// may be half edited then.
    pub fn apply(&self, document: &mut Value) -> Result<i64, Unfit> {
        match self {
            Self::Increment { at, by } => increment(document, &Pointer::new(at), *by),
            Self::Push { at, item } => push(document, &Pointer::new(at), &parsed(item)),
            Self::SetEntry { at, key, value } => {
                set_entry(document, &Pointer::new(at), key, parsed(value)).map(i64::from)
            }
            Self::RemoveEntry { at, key } => {
                remove_entry(document, &Pointer::new(at), key).map(i64::from)
            }
            Self::Merge(patch) => Ok(merge(document, parsed(patch)).into()),
        }
    }

    /// The same edit with its path as a JSON pointer, even where that is a plain name.
    #[must_use]
    pub fn canonical(mut self) -> Self {
        match &mut self {
            Self::Increment { at, .. }
            | Self::Push { at, .. }
            | Self::SetEntry { at, .. }
            | Self::RemoveEntry { at, .. } => *at = Pointer::new(at).canonical(),
            Self::Merge(_) => {}
        }
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        let at = match self {
            Self::Increment { at, .. } | Self::RemoveEntry { at, .. } => at,
            Self::Push { at, item: value } | Self::SetEntry { at, value, .. } => {
                value.check_size("value", limits::VALUE_BYTES)?;
                at
            }
            Self::Merge(patch) => return patch.check_size("patch", limits::VALUE_BYTES),
        };
        match Pointer::new(at).depth() {
            depth if depth > limits::JSON_DEPTH => Err(StoreError::limit(format!(
                "a path of {depth} levels; the limit is {}",
                limits::JSON_DEPTH
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Increment { at, .. } => at.len(),
            Self::Push { at, item } => at.len() + item.as_str().len(),
            Self::SetEntry { at, key, value } => at.len() + key.len() + value.as_str().len(),
            Self::RemoveEntry { at, key } => at.len() + key.len(),
            Self::Merge(patch) => patch.as_str().len(),
        }
    }
}

fn parsed(json: &RawJson) -> Value {
    json.to().expect("it was validated when it was made")
}

/// Merges a patch into a document (JSON merge patch, RFC 7396): objects entry by entry, `null`
/// removes an entry, everything else replaces. Returns whether the document is another then.
fn merge(document: &mut Value, patch: Value) -> bool {
    let Value::Object(patch) = patch else {
        let is_changed = *document != patch;
        *document = patch;
        return is_changed;
    };
    let mut is_changed = !document.is_object();
    if is_changed {
        *document = Value::Object(Map::new());
    }
    let entries = document.as_object_mut().expect("it was made one");
    for (key, value) in patch {
        is_changed |= if value.is_null() {
            entries.remove(&key).is_some()
        } else {
            let is_new = !entries.contains_key(&key);
            merge(entries.entry(key).or_insert(Value::Null), value) || is_new
        };
    }
    is_changed
}

/// Adds to an integer, zero if absent, and returns the sum.
fn increment(document: &mut Value, at: &Pointer, by: i64) -> Result<i64, Unfit> {
    let here = at.make(document)?;
    let before = if here.is_null() {
        0
    } else {
        here.as_i64().ok_or_else(|| at.unfit(here, "an integer"))?
    };
    let sum = before.checked_add(by);
    let sum = sum.ok_or_else(|| {
        Unfit(format!("{at}: {before} {by:+} is more than an integer of 64 bits holds"))
    })?;
    *here = sum.into();
    Ok(sum)
}

/// Appends to a list, empty if absent, and returns its length.
fn push(document: &mut Value, at: &Pointer, item: &Value) -> Result<i64, Unfit> {
    let here = at.make(document)?;
    if here.is_null() {
        *here = Value::Array(Vec::new());
    }
    let unfit = at.unfit(here, "a list");
    let items = here.as_array_mut().ok_or(unfit)?;
    items.push(item.clone());
    Ok(items.len() as i64)
}

/// Sets an entry of an object, empty if absent. Returns whether it was another before.
fn set_entry(document: &mut Value, at: &Pointer, key: &str, value: Value) -> Result<bool, Unfit> {
    let entries = at.entries(at.make(document)?)?;
    if entries.get(key) == Some(&value) {
        return Ok(false);
    }
    entries.insert(key.to_owned(), value);
    Ok(true)
}

/// Removes an entry of an object. Returns whether it was present.
fn remove_entry(document: &mut Value, at: &Pointer, key: &str) -> Result<bool, Unfit> {
    match at.find(document) {
        None | Some(Value::Null) => Ok(false),
        Some(here) => Ok(at.entries(here)?.remove(key).is_some()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_merges_objects_and_null_removes_entries() {
        let mut document =
            json!({ "name": "ada", "flags": { "beta": true, "dark": true }, "tags": [1, 2] });
        let changes = json!({ "flags": { "beta": null, "wide": true }, "tags": [3] });
        assert!(merge(&mut document, changes.clone()));
        assert!(!merge(&mut document, changes));
        assert_eq!(
            document,
            json!({ "name": "ada", "flags": { "dark": true, "wide": true }, "tags": [3] })
        );
        let mut nothing = Value::Null;
        assert!(merge(&mut nothing, json!({ "a": { "b": null, "c": 1 } })));
        assert_eq!(nothing, json!({ "a": { "c": 1 } }));
    }

    #[test]
    fn an_absent_value_is_empty_and_a_wrong_type_is_rejected() {
        let mut document = json!({ "name": "ada" });
        assert_eq!(increment(&mut document, &Pointer::new("visits"), 2), Ok(2));
        assert_eq!(increment(&mut document, &Pointer::new("visits"), -5), Ok(-3));
        assert_eq!(push(&mut document, &Pointer::new("/seen/at"), &json!(1)), Ok(1));
        let mut set = || set_entry(&mut document, &Pointer::new("flags"), "beta", json!(true));
        assert_eq!((set(), set()), (Ok(true), Ok(false)));
        assert_eq!(remove_entry(&mut document, &Pointer::new("flags"), "beta"), Ok(true));
        assert_eq!(remove_entry(&mut document, &Pointer::new("/no/where"), "beta"), Ok(false));
        assert_eq!(
            document,
            json!({ "name": "ada", "visits": -3, "seen": { "at": [1] }, "flags": {} })
        );
        let name = Pointer::new("name");
        assert!(
            increment(&mut document, &name, 1).is_err()
                && push(&mut document, &name, &json!(1)).is_err()
        );
        assert!(set_entry(&mut document, &name, "a", json!(1)).is_err());
        assert!(remove_entry(&mut document, &name, "a").is_err());
        let mut most = json!(i64::MAX);
        assert!(increment(&mut most, &Pointer::new(""), 1).unwrap_err().0.contains("64 bits"));
        assert_eq!(most, json!(i64::MAX));
    }
}
