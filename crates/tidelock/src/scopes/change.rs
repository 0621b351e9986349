//! Named document changes: pure functions from one JSON document to the next.

use serde_json::{Map, Value};

use super::pointer::{Pointer, Unfit};

/// Merges a patch into a document (JSON merge patch, RFC 7396): objects entry by entry, `null`
/// removes an entry, everything else replaces.
pub(crate) fn patch(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *document = patch.clone();
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let entries = document.as_object_mut().expect("it was made one");
    for (key, value) in patch {
        if value.is_null() {
            entries.remove(key);
        } else {
            self::patch(entries.entry(key).or_insert(Value::Null), value);
        }
    }
}

/// Adds to an integer, zero if absent, and returns the sum.
pub(crate) fn increment(document: &mut Value, at: &Pointer, by: i64) -> Result<i64, Unfit> {
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
pub(crate) fn push(document: &mut Value, at: &Pointer, item: &Value) -> Result<usize, Unfit> {
    let here = at.make(document)?;
    if here.is_null() {
        *here = Value::Array(Vec::new());
    }
    let unfit = at.unfit(here, "a list");
    let items = here.as_array_mut().ok_or(unfit)?;
    items.push(item.clone());
    Ok(items.len())
}

/// Sets an entry of an object, empty if absent.
pub(crate) fn set_entry(
    document: &mut Value,
    at: &Pointer,
    key: &str,
    value: &Value,
) -> Result<(), Unfit> {
    at.entries(at.make(document)?)?.insert(key.to_owned(), value.clone());
    Ok(())
}

/// Removes an entry of an object. Returns whether it was present.
pub(crate) fn remove_entry(document: &mut Value, at: &Pointer, key: &str) -> Result<bool, Unfit> {
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
        patch(&mut document, &json!({ "flags": { "beta": null, "wide": true }, "tags": [3] }));
        assert_eq!(
            document,
            json!({ "name": "ada", "flags": { "dark": true, "wide": true }, "tags": [3] })
        );
        let mut nothing = Value::Null;
        patch(&mut nothing, &json!({ "a": { "b": null, "c": 1 } }));
        assert_eq!(nothing, json!({ "a": { "c": 1 } }));
    }

    #[test]
    fn an_absent_value_is_empty_and_a_wrong_type_is_rejected() {
        let mut document = json!({ "name": "ada" });
        assert_eq!(increment(&mut document, &Pointer::new("visits"), 2), Ok(2));
        assert_eq!(increment(&mut document, &Pointer::new("visits"), -5), Ok(-3));
        assert_eq!(push(&mut document, &Pointer::new("/seen/at"), &json!(1)), Ok(1));
        set_entry(&mut document, &Pointer::new("flags"), "beta", &json!(true)).unwrap();
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
        assert!(set_entry(&mut document, &name, "a", &json!(1)).is_err());
        assert!(remove_entry(&mut document, &name, "a").is_err());
        let mut most = json!(i64::MAX);
        assert!(increment(&mut most, &Pointer::new(""), 1).unwrap_err().0.contains("64 bits"));
        assert_eq!(most, json!(i64::MAX));
    }
}
