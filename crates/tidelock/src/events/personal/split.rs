//! Splitting personal values from an event's payload, and joining them on read.
//!
//! In the stored payload a value is an index: `{"~personal": {"subject": "user-7", "at": 0}}`
//! refers to the first value of that event's record about that subject.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use tidelock_store::{
    EventId, RawJson, RecordKey, Result, Slot, Store, StoreError, StoredEvent, limits,
};

use super::MARK;
use crate::events::keys;

/// A payload, and the personal values taken out of it, by subject.
#[derive(Debug)]
pub(crate) struct Split {
    /// The payload as stored in the log.
    pub(crate) payload: RawJson,
    /// The values, in the order of their indexes.
    pub(crate) values: BTreeMap<String, Vec<Value>>,
}

/// Takes the personal values out of a payload.
pub(crate) fn split(payload: RawJson) -> Result<Split> {
    let mut values = BTreeMap::new();
    if !has_mark(&payload) {
        return Ok(Split { payload, values });
    }
    let mut whole: Value = payload.to()?;
    each_mark(&mut whole, &mut |inside| take_value(inside, &mut values));
    Ok(Split { payload: RawJson::new(&whole)?, values })
}

fn take_value(inside: &mut Map<String, Value>, values: &mut BTreeMap<String, Vec<Value>>) {
    inside.remove("at");
    let Some(value) = inside.remove("value") else { return };
    let Some(subject) = subject(inside) else { return };
    let of_subject = values.entry(subject.to_owned()).or_default();
    inside.insert("at".into(), json!(of_subject.len()));
    of_subject.push(value);
}

/// Restores the personal values of these events, except erased ones. Returns whether there were
/// any.
pub(crate) async fn join(
    store: &(impl Store + ?Sized),
    events: &mut [StoredEvent],
) -> Result<bool> {
    let mut marked: Vec<(&mut StoredEvent, Value)> = Vec::new();
    for event in events.iter_mut().filter(|event| has_mark(&event.payload)) {
        let payload = event.payload.to()?;
        marked.push((event, payload));
    }
    if marked.is_empty() {
        return Ok(false);
    }
    let needed: BTreeSet<(String, EventId)> =
        marked.iter_mut().flat_map(|(event, payload)| references(event.id, payload)).collect();
    let values = fetch(store, needed).await?;
    for (event, mut payload) in marked {
        each_mark(&mut payload, &mut |inside| put_value(inside, event.id, &values));
        event.payload = RawJson::new(&payload)?;
    }
    Ok(true)
}

type Values = BTreeMap<(String, EventId), Vec<Value>>;

fn references(event: EventId, payload: &mut Value) -> Vec<(String, EventId)> {
    let mut references = Vec::new();
    each_mark(payload, &mut |inside| {
        if inside.contains_key("at") {
            references.extend(subject(inside).map(|subject| (subject.to_owned(), event)));
        }
    });
    references
}

fn put_value(inside: &mut Map<String, Value>, event: EventId, values: &Values) {
    let at = inside.remove("at").and_then(|at| usize::try_from(at.as_u64()?).ok());
    let Some((at, subject)) = at.zip(subject(inside)) else { return };
    let value = values.get(&(subject.to_owned(), event)).and_then(|values| values.get(at));
    if let Some(value) = value.cloned() {
        inside.insert("value".into(), value);
    }
}

/// Reads each value together with its subject's erasure mark, in one consistent read.
async fn fetch(
    store: &(impl Store + ?Sized),
    needed: BTreeSet<(String, EventId)>,
) -> Result<Values> {
    let needed: Vec<_> = needed.into_iter().collect();
    let mut values = Values::new();
    for some in needed.chunks(limits::PAGE_SIZE / 2) {
        let slots = store.get(&pairs_of_keys(some)?).await?;
        for (reference, pair) in some.iter().zip(slots.chunks(2)) {
            if let [Slot::Absent | Slot::Deleted(_), Slot::Live(record)] = pair {
                values.insert(reference.clone(), record.value.to()?);
            }
        }
    }
    Ok(values)
}

fn pairs_of_keys(references: &[(String, EventId)]) -> Result<Vec<RecordKey>> {
    let pairs = references.iter().map(|(subject, event)| {
        Ok::<_, StoreError>([keys::erased(subject)?, keys::personal(subject, *event)?])
    });
    Ok(pairs.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Whether a payload may contain personal data.
pub(crate) fn has_mark(payload: &RawJson) -> bool {
    payload.as_str().contains(MARK)
}

fn subject(inside: &Map<String, Value>) -> Option<&str> {
    inside.get("subject").and_then(Value::as_str)
}

/// Calls `act` for the content of every personal value.
fn each_mark(value: &mut Value, act: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) if object.len() == 1 && object.contains_key(MARK) => {
            if let Some(Value::Object(inside)) = object.get_mut(MARK) {
                act(inside);
            }
        }
        Value::Object(object) => object.values_mut().for_each(|value| each_mark(value, act)),
        Value::Array(items) => items.iter_mut().for_each(|value| each_mark(value, act)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::encode;
    use crate::events::Personal;

    #[test]
    fn values_are_split_by_subject_and_leave_indexes() {
        let (ada, bob) = (Personal::new("ada", "Ada"), Personal::new("bob", "Bob"));
        let letter = json!({ "text": "hello" });
        let payload = encode(&(&ada, [&bob, &ada], &letter)).unwrap();
        let split = split(payload).unwrap();
        assert!(!split.payload.as_str().contains("Ada") && !split.payload.as_str().contains("Bob"));
        assert_eq!(split.values["ada"], [json!("Ada"), json!("Ada")]);
        assert_eq!(split.values["bob"], [json!("Bob")]);
        let references: Value = split.payload.to().unwrap();
        assert_eq!(references[1][1], json!({ "~personal": { "subject": "ada", "at": 1 } }));
    }

    #[test]
    fn a_payload_without_personal_data_is_unchanged() {
        let payload = RawJson::parse(r#"{ "b": 1.50 }"#).unwrap();
        assert_eq!(split(payload.clone()).unwrap().payload, payload);
    }
}
