//! JSON text that is validated once, when it is created.
//!
//! A store keeps JSON as the text it was given and never parses it again on the way. The checks are
//! those that no store could repair later: the text is JSON, not too deep, its numbers are finite,
//! and it has no NUL.

mod same;
mod unfit;
mod walk;

use std::fmt;
use std::sync::Arc;

use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::{Result, StoreError};
use crate::limits;

pub use unfit::unfit;

use walk::Unwritable;

/// A JSON value, as text.
///
/// Two values are equal when their texts are. [`same_value`](Self::same_value) ignores whitespace
/// and the order of keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// Serializes a value.
    ///
    /// A `serde_json::Value` cannot hold a number that is not finite: the `json!` macro turns it
    /// into `null` before this sees it. Values of your own types are checked.
    ///
    /// # Errors
    /// `Invalid` if the value cannot be written as JSON, or has a number that is not finite (which
    /// JSON cannot express) or a NUL in it; `LimitExceeded` if it is too deep, which is detected
    /// before it is written.
    pub fn new(value: &(impl Serialize + ?Sized)) -> Result<Self> {
        let cannot = |e: &dyn fmt::Display| format!("value cannot be written as JSON: {e}");
        walk::check(value).map_err(|e| match e {
            Unwritable::TooDeep(reason) => StoreError::limit(reason),
            unfit @ Unwritable::Unfit(_) => StoreError::invalid(cannot(&unfit)),
        })?;
        Self::parse(serde_json::to_string(value).map_err(|e| StoreError::invalid(cannot(&e)))?)
    }

    /// Validates text as JSON.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and `Invalid` if it is not JSON.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self> {
        let text = text.into();
        let mut from = serde_json::Deserializer::from_str(&text);
        Check { depth: 0 }.deserialize(&mut from).and_then(|()| from.end()).map_err(|e| {
            let message = e.to_string();
            if message.contains(TOO_DEEP) {
                StoreError::limit(message)
            } else {
                StoreError::invalid(format!("not JSON that can be stored: {message}"))
            }
        })?;
        Ok(Self(text))
    }

    /// Wraps text that a store reads back; it is not validated again.
    pub(crate) fn stored(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Deserializes the value.
    ///
    /// # Errors
    /// `Invalid` if the value does not fit the type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T> {
        serde_json::from_str(&self.0).map_err(|e| {
            let (wanted, reason) = (std::any::type_name::<T>(), unfit(&e));
            StoreError::invalid(format!("stored JSON is not a {wanted}: {reason}"))
        })
    }

    /// Whether both texts hold the same value, ignoring whitespace and the order of keys. Numbers
    /// are compared as they are written.
    pub fn same_value(&self, other: &Self) -> bool {
        self == other || same::value(&self.0, &other.0)
    }

    pub(crate) fn integer(number: i64) -> Self {
        Self(number.to_string().into())
    }

    pub(crate) fn as_integer(&self) -> Option<i64> {
        self.0.trim_ascii().parse().ok()
    }

    pub(crate) fn empty_object() -> Self {
        Self("{}".into())
    }

    pub(crate) fn is_object(&self) -> bool {
        self.0.trim_ascii_start().starts_with('{')
    }

    pub(crate) fn check_size(&self, what: impl fmt::Display, limit: usize) -> Result<()> {
        match self.0.len() {
            bytes if bytes > limit => {
                Err(StoreError::limit(format!("{what} has {bytes} bytes; the limit is {limit}")))
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(to)
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(from)?;
        Self::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}

const TOO_DEEP: &str = "JSON is too deep";
const NUL: &str = "a string has a NUL in it";

fn too_deep() -> String {
    format!("{TOO_DEEP}; the limit is {} levels", limits::JSON_DEPTH)
}

/// Validates JSON text without keeping anything of it.
#[derive(Clone, Copy)]
struct Check {
    depth: usize,
}

impl Check {
    fn deeper<E: serde::de::Error>(self) -> Result<Self, E> {
        if self.depth == limits::JSON_DEPTH {
            return Err(E::custom(too_deep()));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Check {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if text.contains('\0') { Err(E::custom(NUL)) } else { Ok(()) }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inside = self.deeper()?;
        while items.next_element_seed(inside)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let inside = self.deeper()?;
        while entries.next_key_seed(inside)?.is_some() {
            entries.next_value_seed(inside)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::StoreErrorKind;
    use serde_json::json;

    #[test]
    fn text_is_kept_as_it_was_given() {
        let text = "{ \"b\": 1.50, \"a\": [ ] }";
        assert_eq!(RawJson::parse(text).unwrap().as_str(), text);
    }

    #[test]
    fn spaces_and_the_order_of_keys_do_not_matter_and_all_else_does() {
        let same = |one: &str, other: &str| {
            RawJson::parse(one).unwrap().same_value(&RawJson::parse(other).unwrap())
        };
        assert!(same(
            r#" {"b": [1, {"c":null}], "a": "x"}"#,
            r#"{"a":"\u0078","b":[1,{"c":null}]} "#
        ));
        for (one, other) in [
            ("123456789012345678901", "123456789012345678902"),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            ("[1,2]", "[2,1]"),
            ("[1]", "[1,1]"),
            ("{}", "[]"),
            ("1", "\"1\""),
            ("null", "false"),
        ] {
            assert!(!same(one, other), "{one} and {other}");
        }
    }

    #[test]
    fn what_cannot_be_stored_is_refused() {
        for text in ["", "{", "nul", "1 2", "1e999", "\"\\u0000\"", "{\"\\u0000\":1}", "NaN"] {
            assert_eq!(
                RawJson::parse(text).unwrap_err().kind(),
                StoreErrorKind::Invalid,
                "{text:?}"
            );
        }
        let deep = |levels| "[".repeat(levels) + &"]".repeat(levels);
        assert!(RawJson::parse(deep(limits::JSON_DEPTH)).is_ok());
        let refused = RawJson::parse(deep(limits::JSON_DEPTH + 1)).unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::LimitExceeded);
        assert!(refused.to_string().contains("the limit is 64 levels"), "{refused}");
    }

    #[test]
    fn a_number_that_is_not_finite_is_refused_and_not_written_as_null() {
        for value in [vec![Some(f64::NAN)], vec![None, Some(f64::INFINITY)]] {
            let refused = RawJson::new(&value).unwrap_err();
            assert_eq!(refused.kind(), StoreErrorKind::Invalid);
            assert!(refused.to_string().contains("not finite"), "{refused}");
        }
        assert_eq!(
            RawJson::new(&json!({"a": [1, null, {"b": 0.5}]})).unwrap().as_str(),
            r#"{"a":[1,null,{"b":0.5}]}"#
        );
    }

    /// Deeper than any stack, in every way in which a value can be nested.
    #[test]
    fn a_value_that_is_too_deep_is_refused_before_it_is_written() {
        use serde::ser::{SerializeMap, SerializeSeq, SerializeStruct};

        /// Nested levels that are generated while they are walked, so that only the walker can
        /// overflow.
        struct Deep(usize, fn(usize) -> usize);
        impl Serialize for Deep {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let Self(levels, how) = *self;
                let Some(levels) = levels.checked_sub(1) else { return to.serialize_unit() };
                let inside = &Self(levels, how);
                match how(levels) {
                    0 => {
                        let mut items = to.serialize_seq(Some(1))?;
                        items.serialize_element(inside)?;
                        items.end()
                    }
                    1 => {
                        let mut entries = to.serialize_map(Some(1))?;
                        entries.serialize_entry("inside", inside)?;
                        entries.end()
                    }
                    2 => {
                        let mut fields = to.serialize_struct("Deep", 1)?;
                        fields.serialize_field("inside", inside)?;
                        fields.end()
                    }
                    3 => to.serialize_newtype_variant("Deep", 0, "Inside", inside),
                    4 => to.serialize_some(inside),
                    _ => to.serialize_newtype_struct("Deep", inside),
                }
            }
        }

        let ways: [fn(usize) -> usize; 7] =
            [|_| 0, |_| 1, |_| 2, |_| 3, |_| 4, |_| 5, |level| level % 6];
        for (nth, how) in ways.into_iter().enumerate() {
            let refused = RawJson::new(&Deep(1_000_000, how)).unwrap_err();
            assert_eq!(refused.kind(), StoreErrorKind::LimitExceeded, "{nth}: {refused}");
            assert!(refused.to_string().contains("too deep; the limit is "), "{nth}: {refused}");
            RawJson::new(&Deep(limits::JSON_DEPTH, how)).unwrap_or_else(|e| panic!("{nth}: {e}"));
        }
        for how in &ways[..4] {
            RawJson::new(&Deep(limits::JSON_DEPTH + 1, *how)).unwrap_err();
        }
        RawJson::new(&Deep(limits::JSON_WRAPPERS, |_| 4)).unwrap();
        RawJson::parse("[".repeat(1_000_000)).unwrap_err();
        serde_json::from_str::<RawJson>(&"[".repeat(1_000_000)).unwrap_err();
    }

    #[test]
    fn what_is_as_deep_as_may_be_can_have_any_json_at_its_bottom() {
        let mut json = RawJson::parse("1.50").unwrap();
        for _ in 0..limits::JSON_DEPTH {
            json = RawJson::new(&[json]).unwrap();
        }
        assert_eq!(RawJson::new(&[json]).unwrap_err().kind(), StoreErrorKind::LimitExceeded);
    }

    #[test]
    fn json_inside_json_is_not_quoted() {
        let inner = RawJson::parse("[1]").unwrap();
        assert_eq!(serde_json::to_string(&vec![inner.clone()]).unwrap(), "[[1]]");
        assert_eq!(serde_json::from_str::<Vec<RawJson>>("[ [1] ]").unwrap(), [inner]);
    }
}
