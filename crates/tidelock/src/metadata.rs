//! Event metadata: correlation, causation, reaction, actor, trace, and free fields.
//!
//! Five are typed: the correlation id (which conversation the event belongs to), the causation (the
//! event that led to it), the reaction (whose handler appended it), the actor (who did it), and the
//! trace (what it was done in, as `traceparent` and `tracestate`). Everything else is a free field.
//! It is stored as one flat JSON object, by which the feed can be filtered.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use std::borrow::Cow;
use tidelock_store::{EventId, RawJson, StoreError, StoredEvent};

use crate::trace_context::{TRACEPARENT, TRACESTATE, TraceContext};

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
    /// The trace in which it was appended. Where this is empty, the current one is stored.
    pub trace: Option<TraceContext>,
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

    /// Returns this metadata, with the [current trace](TraceContext::current) if it has none.
    pub fn traced(&self) -> Cow<'_, Self> {
        match (&self.trace, TraceContext::current()) {
            (None, Some(trace)) => Cow::Owned(Self { trace: Some(trace), ..self.clone() }),
            _ => Cow::Borrowed(self),
        }
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

    /// Sets a field by name. The typed fields can be set like this too.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.set(name.into(), value.into());
        self.set_trace();
        self
    }

    fn from_fields(fields: Map<String, Value>) -> Self {
        let mut metadata = Self::default();
        fields.into_iter().for_each(|(name, value)| metadata.set(name, value));
        metadata.set_trace();
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

    /// Reads the trace from its two fields, which are free fields if they are not valid.
    fn set_trace(&mut self) {
        let text =
            |fields: &Map<String, Value>, name| fields.get(name)?.as_str().map(str::to_owned);
        let Some(parent) = text(&self.fields, TRACEPARENT) else { return };
        let Ok(trace) = parent.parse::<TraceContext>() else { return };
        if trace.to_string() != parent {
            return;
        }
        self.fields.remove(TRACEPARENT);
        self.trace = Some(match text(&self.fields, TRACESTATE) {
            Some(state) => trace.with_state(&state),
            None => trace,
        });
        if self.trace.as_ref().is_some_and(|trace| trace.state().is_some()) {
            self.fields.remove(TRACESTATE);
        }
    }

    /// The typed fields; each hides a free field of the same name.
    fn typed(&self) -> [(&'static str, Option<String>); 6] {
        let trace = self.trace.as_ref();
        [
            (CORRELATION, self.correlation.clone()),
            (CAUSATION, self.causation.map(|id| id.to_string())),
            (REACTION, self.reaction.clone()),
            (ACTOR, self.actor.clone()),
            (TRACEPARENT, trace.map(TraceContext::to_string)),
            (TRACESTATE, trace.and_then(|trace| trace.state().map(str::to_owned))),
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

    /// TRACE-1.
    #[test]
    fn a_trace_is_two_fields_and_a_caused_event_does_not_inherit_it() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let trace = parent.parse::<TraceContext>().unwrap().with_state("congo=1");
        let metadata = Metadata { trace: Some(trace), ..Metadata::new() }.by("ada");
        let json = metadata.to_json().unwrap();
        assert_eq!(
            json.to::<Value>().unwrap(),
            json!({ "actor": "ada", "traceparent": parent, "tracestate": "congo=1" })
        );
        assert_eq!(Metadata::from_json(&json), metadata);
        assert_eq!(Metadata::new().with("traceparent", parent).trace.unwrap().to_string(), parent);
        let odd = Metadata::new().with("traceparent", "the moon").with("tracestate", "a=1");
        assert_eq!((odd.trace.clone(), odd.fields.len()), (None, 2), "kept as it was");
        assert_eq!(Metadata::caused_by(EventId::from_bytes([1; 16]), &metadata).trace, None);
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
