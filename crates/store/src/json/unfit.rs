//! Redacted deserialization errors: why JSON does not fit a type, without its content.
//!
//! Serde's messages quote the input. Such errors end up in logs and listings, and payloads must
//! not.

use std::borrow::Cow;

use super::{NUL, TOO_DEEP};
use crate::limits;

/// Serde's message without the input.
#[doc(hidden)]
pub fn unfit(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = said.rfind(" at line ").map_or("", |at| &said[at..]);
    let said = said.strip_suffix(place).unwrap_or(&said);
    format!("{}{place}", about_the_type(said))
}

/// The part of the message about the type, not the value.
fn about_the_type(said: &str) -> Cow<'_, str> {
    match about_a_limit(said) {
        Some(limit) => limit.into(),
        None => expected(said).into(),
    }
}

/// Which of our own limits was exceeded. The message is rebuilt, so that it cannot contain the
/// refused input.
fn about_a_limit(said: &str) -> Option<String> {
    if said.contains(TOO_DEEP) {
        return Some(format!("it is too deep; the limit is {} levels", limits::JSON_DEPTH));
    }
    if said.contains(NUL) {
        return Some("it has a string with a NUL in it".to_owned());
    }
    let (bytes, limit) = said.rsplit_once(" has ")?.1.split_once(" bytes; the limit is ")?;
    let (bytes, limit): (u64, u64) = (bytes.parse().ok()?, limit.parse().ok()?);
    Some(format!("it has {bytes} bytes; the limit is {limit}"))
}

fn expected(said: &str) -> &str {
    const QUOTING: [&str; 5] =
        ["invalid type", "invalid value", "invalid length", "unknown variant", "unknown field"];
    if said.starts_with("missing field") || said.starts_with("duplicate field") {
        return said;
    }
    // The last occurrence: the quoted value may contain the same words.
    let expected = said.rfind(", expected ").map(|at| &said[at + ", ".len()..]);
    let quotes = QUOTING.iter().any(|quoting| said.starts_with(quoting));
    expected.filter(|_| quotes).unwrap_or("it does not fit")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sold {
        _units: u8,
        _how: Option<How>,
    }

    #[derive(Debug, Deserialize)]
    enum How {
        Cash,
        #[serde(deserialize_with = "never")]
        Card(()),
    }

    fn never<'de, D: serde::Deserializer<'de>>(from: D) -> Result<(), D::Error> {
        let text = String::deserialize(from)?;
        Err(serde::de::Error::custom(format!("{text} is no card")))
    }

    fn reason(json: &str) -> String {
        unfit(&serde_json::from_str::<Sold>(json).unwrap_err())
    }

    #[test]
    fn the_expected_type_and_the_place_are_named() {
        assert_eq!(reason("{}"), "missing field `_units` at line 1 column 2");
        assert_eq!(reason(r#"{"_units":"two"}"#), "expected u8 at line 1 column 15");
        assert_eq!(reason(r#"{"_units":300}"#), "expected u8 at line 1 column 13");
    }

    #[test]
    fn a_limit_that_was_passed_is_named() {
        let refused = |json: &str| {
            unfit(&serde_json::from_str::<(crate::RawJson, crate::EventType)>(json).unwrap_err())
        };
        let deep = format!("[{}{}, \"a\"]", "[".repeat(65), "]".repeat(65));
        let long = format!("[1, \"{}\"]", "ada has 7 bytes; the limit is 3 ".repeat(5));
        for (json, says) in [
            (&*deep, "it is too deep; the limit is 64 levels at line 1"),
            ("[\"\\u0000\", \"a\"]", "it has a string with a NUL in it at line 1"),
            (&*long, "it has 160 bytes; the limit is 128 at line 1"),
        ] {
            assert!(refused(json).starts_with(says), "{}", refused(json));
        }
    }

    #[test]
    fn the_input_is_never_quoted() {
        for json in [
            r#"{"_units":"ada, expected ada"}"#,
            r#"{"ada":1}"#,
            r#"{"_units":1,"_how":"ada"}"#,
            r#"{"_units":1,"_how":{"Card":"ada"}}"#,
            r#""ada at line 1""#,
        ] {
            assert!(!reason(json).contains("ada"), "{}", reason(json));
        }
        assert!(matches!(serde_json::from_str(r#""Cash""#), Ok(How::Cash)), "what fits, fits");
    }
}
