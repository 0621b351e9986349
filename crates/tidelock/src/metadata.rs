//! Event metadata: correlation, causation, reaction, actor, and free fields.
//!
//! Four fields are typed: the correlation id (which conversation the event belongs to), the
//! causation (the event that led to it), the reaction (whose handler appended it), and the actor
//! (who did it). Everything else is a free field. It is stored as one flat JSON object, by which
//! the feed can be filtered.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use tidelock_store::{EventId, RawJson, StoreError, StoredEvent};

const CORRELATION: &str = "correlation";
const CAUSATION: &str = "causation";
const REACTION: &str = "reaction";
const ACTOR: &str = "actor";

/// Metadata of an event.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metadata {
    /// Correlation id: the same for everything that one request led to.
    pub correlation: Option<String>,
    /// The event that caused this one.
    pub causation: Option<EventId>,
    /// The reaction whose handler appended this event.
    pub reaction: Option<String>,
    /// Who did it.
    pub actor: Option<String>,
    /// Free fields.
    pub fields: Map<String, Value>,
}

impl Metadata {
    /// Creates empty metadata.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the metadata of an event that was caused by another: the same correlation, and that
    /// event as the causation.
    ///
    /// If the cause has no correlation, its id becomes the correlation.
    pub fn caused_by(id: EventId, metadata: &Self) -> Self {
        let correlation = metadata.correlation.clone().unwrap_or_else(|| id.to_string());
        Self { correlation: Some(correlation), causation: Some(id), ..Self::default() }
    }

    /// Returns the metadata of a stored event.
    ///
    /// A typed field with an unexpected value is kept as a free field.
    pub fn of(event: &StoredEvent) -> Self {
        Self::from_json(&event.metadata)
    }

    /// Reads metadata from its stored form.
    pub fn from_json(json: &RawJson) -> Self {
        json.to::<Map<String, Value>>().map(Self::from_fields).unwrap_or_default()
    }

    /// Encodes the metadata for storage.
    ///
    /// # Errors
    /// `Invalid` or `LimitExceeded` if a free field cannot be stored.
    pub fn to_json(&self) -> Result<RawJson, StoreError> {
        RawJson::new(self).map_err(|e| e.about("metadata"))
    }

    /// Sets the correlation id.
    #[must_use]
    pub fn correlated(mut self, correlation: impl Into<String>) -> Self {
        self.correlation = Some(correlation.into());
        self
    }

    /// Sets the actor.
    #[must_use]
    pub fn by(mut self, actor: impl Into<String>) -> Self {
        self.actor = Some(actor.into());
        self
    }

    /// Sets a field by name. The four typed fields can be set like this too.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set(name.into(), value.into());
        self
    }

    fn from_fields(fields: Map<String, Value>) -> Self {
        let mut metadata = Self::default();
        fields.into_iter().for_each(|(name, value)| metadata.set(name, value));
        metadata
    }

    fn set(&mut self, name: String, value: Value) {
        match (name.as_str(), &value) {
            (CORRELATION, Value::String(text)) => self.correlation = Some(text.clone()),
            (REACTION, Value::String(text)) => self.reaction = Some(text.clone()),
            (ACTOR, Value::String(text)) => self.actor = Some(text.clone()),
            (CAUSATION, Value::String(text)) if text.parse::<EventId>().is_ok() => {
                self.causation = text.parse().ok();
            }
            _ => {
                self.fields.insert(name, value);
            }
        }
    }

    /// The typed fields; each hides a free field of the same name.
    fn typed(&self) -> [(&'static str, Option<String>); 4] {
        [
            (CORRELATION, self.correlation.clone()),
            (CAUSATION, self.causation.map(|id| id.to_string())),
            (REACTION, self.reaction.clone()),
            (ACTOR, self.actor.clone()),
        ]
    }
}

impl Serialize for Metadata {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let typed = self.typed();
        let set =
            typed.iter().filter_map(|(name, value)| Some((*name, Value::from(value.clone()?))));
        let hidden =
            |name: &str| typed.iter().any(|(typed, value)| *typed == name && value.is_some());
        let free = self.fields.iter().filter(|(name, _)| !hidden(name));
        to.collect_map(set.chain(free.map(|(name, value)| (name.as_str(), value.clone()))))
    }
}

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Map::deserialize(from).map(Self::from_fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metadata_is_one_flat_object_and_decoded_again() {
        let id = EventId::from_bytes([7; 16]);
        let metadata = Metadata { causation: Some(id), ..Metadata::new() };
        let metadata =
            metadata.correlated("request-1").by("ada").with("ip", "::1").with("tries", 2);
        let json = metadata.to_json().unwrap();
        assert_eq!(
            json.to::<Value>().unwrap(),
            json!({ "correlation": "request-1", "causation": id.to_string(), "actor": "ada", "ip": "::1", "tries": 2 })
        );
        assert_eq!(Metadata::from_json(&json), metadata);
        assert_eq!(Metadata::new().to_json().unwrap().as_str(), "{}");
    }

    #[test]
    fn a_caused_event_has_the_correlation_of_its_cause() {
        let (first, second) = (EventId::from_bytes([1; 16]), EventId::from_bytes([2; 16]));
        let reply = Metadata::caused_by(first, &Metadata::new().by("ada").with("reaction", "mail"));
        assert_eq!(
            (reply.correlation.clone(), reply.causation),
            (Some(first.to_string()), Some(first))
        );
        assert_eq!(
            (&reply.actor, &reply.reaction),
            (&None, &None),
            "who did the first did not do the second"
        );
        let further = Metadata::caused_by(second, &reply);
        assert_eq!(
            (further.correlation, further.causation),
            (Some(first.to_string()), Some(second))
        );
    }

    #[test]
    fn unexpected_values_are_kept_as_free_fields() {
        let odd = Metadata::from_json(
            &RawJson::new(&json!({ "causation": "the moon", "actor": 7 })).unwrap(),
        );
        assert_eq!((odd.causation, odd.actor.clone()), (None, None));
        assert_eq!(odd.fields["causation"], "the moon");
        let named = odd.by("ada").to_json().unwrap().to::<Value>().unwrap();
        assert_eq!(named, json!({ "actor": "ada", "causation": "the moon" }));
    }
}
