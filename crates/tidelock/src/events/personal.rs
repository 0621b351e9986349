//! Personal data, kept apart from the events that it belongs to.
//!
//! A [`Personal`] value names its subject. In the log there is only the subject; the value is in a
//! record of its own, written in the event's commit and joined when the event is read. Erasing a
//! subject first puts a mark under its name, which every commit with data about it is guarded by
//! and every reader looks at, and then takes the records away: so nothing can be added behind an
//! erasure's back, and nothing is read after it, wherever it is interrupted.
//!
//! While an event is encoded the values are spelled out in its JSON, and `split` takes them from
//! there. Anywhere else, in a snapshot or a log line say, a `Personal` is written as its subject
//! alone.

mod erase;
mod split;

use std::cell::Cell;
use std::fmt;

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub(crate) use erase::{erase, guard};
pub(crate) use split::{join, split};

/// The key of the object that a personal value is in JSON.
const MARK: &str = "~personal";

thread_local! {
    /// Whether values are written, which is only while an event is encoded.
    static SPELLED_OUT: Cell<bool> = const { Cell::new(false) };
}

/// A value about somebody, that can be erased without touching the event that it is in.
///
/// ```
/// use tidelock::Personal;
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
    /// This value, about this subject.
    pub fn new(subject: impl Into<String>, value: T) -> Self {
        Self { subject: subject.into(), value: Some(value) }
    }

    /// What is left once the subject was erased.
    pub fn erased(subject: impl Into<String>) -> Self {
        Self { subject: subject.into(), value: None }
    }

    /// Whom it is about.
    pub fn subject(&self) -> &str {
        &self.subject
    }

    /// The value, unless it was erased.
    pub fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// The value, unless it was erased.
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

/// Encodes with the values of personal data in it.
pub(crate) fn spelled_out<T>(encode: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            SPELLED_OUT.set(self.0);
        }
    }
    let _before = Before(SPELLED_OUT.replace(true));
    encode()
}

#[derive(Serialize)]
struct Inside<'a, T> {
    subject: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a T>,
}

impl<T: Serialize> Serialize for Personal<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let value = self.value.as_ref().filter(|_| SPELLED_OUT.get());
        let mut object = to.serialize_map(Some(1))?;
        object.serialize_entry(MARK, &Inside { subject: &self.subject, value })?;
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
        // What is wrong with the value is not said: the message would quote it.
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
        let inside = spelled_out(outside);
        assert_eq!(inside, json!({ "~personal": { "subject": "user-7", "value": "Ada" } }));
        assert_eq!(serde_json::from_value::<Personal<String>>(outside()).unwrap().get(), None);
        assert_eq!(
            serde_json::from_value::<Personal<String>>(inside).unwrap().get().unwrap(),
            "Ada"
        );
    }
}
