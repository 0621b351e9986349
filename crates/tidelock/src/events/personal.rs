//! Personal data, stored separately from the events it belongs to.
//!
//! A [`Personal`] value names its subject. The log contains only the subject; the value is in a
//! separate record, written in the event's commit and joined when the event is read. Erasing a
//! subject first writes a mark under its name, and then deletes the records. Every commit with data
//! about the subject is guarded by that mark, and every reader checks it. So no data can be added
//! after an erasure began and none is read, even if the erasure is interrupted.
//!
//! While an event is encoded, its JSON contains the values, and `split` takes them out. In any
//! other serialization, such as a snapshot or a log line, a `Personal` is written as its subject
//! alone.

mod erase;
mod split;

use std::cell::Cell;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use erase::SubjectInfo;
pub(crate) use erase::{erase, guard, look};
pub(crate) use split::{join, split};

/// Key of the JSON object that represents a personal value.
const MARK: &str = "~personal";

thread_local! {
    /// Whether values are serialized: only while an event is encoded.
    static INCLUDE_VALUES: Cell<bool> = const { Cell::new(false) };
}

/// A value about a person that can be erased without changing the event that contains it.
///
/// ```
/// use tidelock::events::Personal;
///
/// let name = Personal::new("user-7", "Ada".to_owned());
/// assert_eq!(name.get().map(String::as_str), Some("Ada"));
/// assert_eq!(format!("{name:?}"), r#"Personal("user-7")"#, "it does not get into logs");
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Personal<T> {
    subject: String,
    value: Option<T>,
}

impl<T> Personal<T> {
    /// Creates a value about a subject.
    pub fn new(subject: impl Into<String>, value: T) -> Self {
        Self { subject: subject.into(), value: Some(value) }
    }

    /// Creates the value that remains after the subject was erased.
    pub fn erased(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), value: None }
    }

    /// Returns the id of the person the value is about.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the value, or `None` if it was erased.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// Returns the value by move, or `None` if it was erased.
    pub fn into_inner(self) -> Option<T> {
        self.value
    }
}

impl<T> fmt::Debug for Personal<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = if self.value.is_some() { "Personal" } else { "Erased" };
        f.debug_tuple(name).field(&self.subject).finish()
    }
}

/// Runs an encoder that includes personal values.
pub(crate) fn with_values<T>(encode: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            INCLUDE_VALUES.set(self.0);
        }
    }
    let _before = Before(INCLUDE_VALUES.replace(true));
    encode()
}

#[derive(Serialize)]
struct Content<'a, T> {
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a T>,
}

impl<T: Serialize> Serialize for Personal<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let value = self.value.as_ref().filter(|_| INCLUDE_VALUES.get());
        let mut object = to.serialize_map(Some(1))?;
        object.serialize_entry(MARK, &Content { subject: &self.subject, value })?;
        object.end()
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Personal<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let mut object = serde_json::Map::deserialize(from)?;
        let Some(Value::Object(mut inside)) = object.remove(MARK) else {
            return Err(D::Error::custom("personal data was expected"));
        };
        let Some(Value::String(subject)) = inside.remove("subject") else {
            return Err(D::Error::custom("personal data without a subject"));
        };
        // Serde's message is dropped: it would quote the value.
        let value = inside.remove("value").map(serde_json::from_value).transpose();
        let value = value.map_err(|_| D::Error::custom("personal data of another type"))?;
        Ok(Self { subject, value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_value_is_written_only_while_an_event_is_encoded() {
        let name = Personal::new("user-7", "Ada");
        let outside = || serde_json::to_value(&name).unwrap();
        assert_eq!(outside(), json!({ "~personal": { "subject": "user-7" } }));
        let inside = with_values(outside);
        assert_eq!(inside, json!({ "~personal": { "subject": "user-7", "value": "Ada" } }));
        assert_eq!(serde_json::from_value::<Personal<String>>(outside()).unwrap().get(), None);
        assert_eq!(
            serde_json::from_value::<Personal<String>>(inside).unwrap().get().unwrap(),
            "Ada"
        );
    }
}
