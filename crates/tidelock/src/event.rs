//! Typed events: their stored type names, and their JSON encoding.
//!
//! A type that implements [`Event`] knows every stored type it can be read from. Upcasters convert
//! older versions while they are read; stored events never change. The stream and the metadata of
//! an event are not part of it: see [`Recorded`](crate::events::Recorded).

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidelock_store::{RawJson, StoreError};

use crate::events::personal;

/// An event type, or an enum of them, that can be stored in a stream.
///
/// Usually derived. Each variant has its own stored type, in snake case, and its fields are the
/// payload. Serde's field attributes apply; serde's traits need not be derived.
///
/// ```
/// use serde_json::{Value, json};
/// use tidelock::Event;
///
/// #[derive(Debug, PartialEq, Event)]
/// enum StockEvent {
///     Received { units: i64 },
///     #[event(name = "taken", version = 2, was("booked"), upcast(with_order))]
///     Reserved { units: i64, order: String },
/// }
///
/// /// From version 1 to version 2: version 1 had no order number.
/// fn with_order(mut payload: Value) -> Value {
///     payload["order"] = json!("unknown");
///     payload
/// }
///
/// assert_eq!(StockEvent::TYPES, ["received", "taken@2", "booked@2", "taken", "booked"]);
/// let old = tidelock::store::RawJson::new(&json!({ "units": 2 }))?;
/// let event = StockEvent::decode("booked", &old)?;
/// assert_eq!(event, StockEvent::Reserved { units: 2, order: "unknown".into() });
/// assert_eq!(event.event_type(), "taken@2");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Attributes of a variant, or of a struct:
/// - `name = "…"`: the stored type, instead of the variant's name in snake case.
/// - `version = 2`: the schema version. The first version is stored under the plain name, later
///   ones as `name@2`.
/// - `upcast(one_to_two, …)`: functions from `Value` to `Value`, one for each step up to this
///   version, oldest first. Without them this variant reads only this version; an older version may
///   be a separate variant.
/// - `was("…")`: earlier stored types.
///
/// Attributes of an enum or a struct: `prefix = "stock"` puts `stock.` before the name.
pub trait Event: Sized + Send + Sync + 'static {
    /// Every stored type this can be read from.
    const TYPES: &'static [&'static str];

    /// Returns the stored type of this event.
    fn event_type(&self) -> &'static str;

    /// Encodes the payload.
    ///
    /// # Errors
    /// `Invalid` if it cannot be written as JSON, `LimitExceeded` if it is nested too deeply.
    fn encode(&self) -> Result<RawJson, StoreError>;

    /// Decodes a stored payload, upcasting it if necessary.
    ///
    /// # Errors
    /// [`DecodeError`] if the stored type is unknown, or the payload does not match it.
    fn decode(event_type: &str, payload: &RawJson) -> Result<Self, DecodeError>;
}

/// A stored event that cannot be decoded.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DecodeError {
    /// The stored type is unknown.
    #[error(
        "type {event_type:?} is not known to {reader}: it reads {known}; add a variant, or `was`, or an upcaster"
    )]
    UnknownType {
        /// The stored type.
        event_type: String,
        /// The Rust type that was to be decoded.
        reader: &'static str,
        /// The stored types it can decode.
        known: String,
    },
    /// The payload does not match the current version of the type.
    #[error("payload of type {event_type:?} is no {reader}: {reason}")]
    Malformed {
        /// The stored type.
        event_type: String,
        /// The Rust type that was to be decoded.
        reader: &'static str,
        /// The reason, without the payload's content.
        reason: String,
    },
}

/// Converts a payload from one version to the next.
pub type Upcaster = fn(Value) -> Value;

/// Encodes fields as a payload. Personal values are included, so that they can be split off.
///
/// # Errors
/// `Invalid` if they cannot be written as JSON, `LimitExceeded` if they are nested too deeply.
pub fn encode(fields: &impl Serialize) -> Result<RawJson, StoreError> {
    personal::with_values(|| RawJson::new(fields))
}

/// Decodes fields from a payload, upcasting it first.
///
/// # Errors
/// [`DecodeError::Malformed`] if the payload does not match.
pub fn decode<E, T: DeserializeOwned>(
    event_type: &str,
    payload: &RawJson,
    upcasters: &[Upcaster],
) -> Result<T, DecodeError> {
    let read = if upcasters.is_empty() {
        serde_json::from_str(payload.as_str())
    } else {
        serde_json::from_str(payload.as_str())
            .map(|old: Value| upcasters.iter().fold(old, |value, up| up(value)))
            .and_then(serde_json::from_value)
    };
    read.map_err(|e| malformed::<E>(event_type, &e))
}

fn malformed<E>(event_type: &str, error: &serde_json::Error) -> DecodeError {
    let reason = tidelock_store::unfit(error);
    DecodeError::Malformed { event_type: event_type.to_owned(), reader: short_name::<E>(), reason }
}

/// Creates the error for an unknown stored type.
pub fn unknown_type<E: Event>(event_type: &str) -> DecodeError {
    let known = E::TYPES.join(", ");
    DecodeError::UnknownType { event_type: event_type.to_owned(), reader: short_name::<E>(), known }
}

/// Name of a type without its module path.
pub(crate) fn short_name<T>() -> &'static str {
    let whole = std::any::type_name::<T>();
    whole.rsplit("::").next().unwrap_or(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use tidelock_derive::Event;

    #[derive(Debug, PartialEq, Event)]
    #[event(prefix = "shop")]
    enum ShopEvent {
        Opened,
        #[serde(rename_all = "camelCase")]
        ItemSold {
            #[serde(rename = "n")]
            units: i64,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            sold_to: Option<String>,
        },
        Counted(Vec<i64>),
        Moved(String, String),
        #[event(name = "priced", version = 3, was("cost"), upcast(to_cents, with_currency))]
        Priced {
            cents: i64,
            currency: String,
        },
    }

    #[derive(Debug, PartialEq, Event)]
    struct OrderPlaced {
        order: String,
    }

    fn to_cents(mut old: Value) -> Value {
        old["cents"] = json!(old["euros"].as_i64().unwrap_or_default() * 100);
        old
    }

    fn with_currency(mut old: Value) -> Value {
        old["currency"] = json!("EUR");
        old
    }

    fn stored(event: &ShopEvent) -> (&'static str, String) {
        (event.event_type(), event.encode().unwrap().as_str().to_owned())
    }

    #[test]
    fn a_variant_is_stored_as_its_name_and_fields_and_decoded_again() {
        let sold = ShopEvent::ItemSold { units: 2, sold_to: None };
        let sold_to = ShopEvent::ItemSold { units: 2, sold_to: Some("ada".into()) };
        let priced = ShopEvent::Priced { cents: 5, currency: "EUR".into() };
        for (event, event_type, payload) in [
            (ShopEvent::Opened, "shop.opened", "{}"),
            (sold, "shop.item_sold", r#"{"n":2}"#),
            (sold_to, "shop.item_sold", r#"{"n":2,"soldTo":"ada"}"#),
            (ShopEvent::Counted(vec![1, 2]), "shop.counted", "[1,2]"),
            (ShopEvent::Moved("a".into(), "b".into()), "shop.moved", r#"["a","b"]"#),
            (priced, "shop.priced@3", r#"{"cents":5,"currency":"EUR"}"#),
        ] {
            assert_eq!(stored(&event), (event_type, payload.to_owned()));
            assert_eq!(
                ShopEvent::decode(event_type, &RawJson::parse(payload).unwrap()).unwrap(),
                event
            );
        }
        assert_eq!(OrderPlaced { order: "7".into() }.event_type(), "order_placed");
    }

    #[test]
    fn an_old_version_is_upcast_step_by_step() {
        let read = |event_type, payload| {
            ShopEvent::decode(event_type, &RawJson::new(&payload).unwrap()).unwrap()
        };
        let now = ShopEvent::Priced { cents: 500, currency: "EUR".into() };
        assert_eq!(read("shop.priced", json!({ "euros": 5 })), now);
        assert_eq!(read("cost", json!({ "euros": 5 })), now);
        assert_eq!(read("shop.priced@2", json!({ "cents": 500 })), now);
    }

    #[test]
    fn a_decode_error_names_the_stored_type() {
        let empty = RawJson::parse("{}").unwrap();
        let unknown = ShopEvent::decode("shop.closed", &empty).unwrap_err().to_string();
        assert!(unknown.contains(r#"type "shop.closed" is not known to ShopEvent"#), "{unknown}");
        let malformed = ShopEvent::decode("shop.item_sold", &empty).unwrap_err().to_string();
        assert!(malformed.contains("missing field `n`"), "{malformed}");
    }

    #[test]
    fn a_value_that_is_not_json_is_rejected_on_encode() {
        #[derive(Event)]
        struct Weighed {
            grams: f64,
        }
        assert!(
            Weighed { grams: f64::NAN }.encode().unwrap_err().to_string().contains("not finite")
        );
    }
}
