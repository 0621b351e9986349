//! Equality of JSON texts by value.
//!
//! Parsing both into a common value would call different numbers equal (beyond 64 bits they are
//! rounded) and would drop all but the last of equal keys. So numbers are compared as text, and
//! objects entry by entry.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

pub(super) fn value(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_ascii(), other.trim_ascii());
    match (one.as_bytes().first(), other.as_bytes().first()) {
        (Some(b'{'), Some(b'{')) => both(one, other, entries),
        (Some(b'['), Some(b'[')) => {
            both(one, other, |one: Vec<_>, other: Vec<_>| items(&one, &other))
        }
        (Some(b'"'), Some(b'"')) => {
            let text = |json| serde_json::from_str::<String>(json).ok();
            text(one).is_some() && text(one) == text(other)
        }
        _ => one == other,
    }
}

fn both<'a, T: Deserialize<'a>>(one: &'a str, other: &'a str, same: impl Fn(T, T) -> bool) -> bool {
    match (serde_json::from_str(one), serde_json::from_str(other)) {
        (Ok(one), Ok(other)) => same(one, other),
        _ => false,
    }
}

fn items(one: &[&RawValue], other: &[&RawValue]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(a, b)| value(a.get(), b.get()))
}

fn entries(mut one: Entries<'_>, mut other: Entries<'_>) -> bool {
    // Equal keys keep their order.
    one.0.sort_by(|a, b| a.0.cmp(&b.0));
    other.0.sort_by(|a, b| a.0.cmp(&b.0));
    one.0.len() == other.0.len()
        && one.0.iter().zip(&other.0).all(|(a, b)| a.0 == b.0 && value(a.1.get(), b.1.get()))
}

/// All entries of an object.
struct Entries<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Entries<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Collect;

        impl<'de> Visitor<'de> for Collect {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }

        from.deserialize_map(Collect)
    }
}
