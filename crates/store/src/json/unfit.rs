//! Why JSON is not what it was read as, in words that have none of its content in them.
//!
//! What serde says quotes what it found. Such errors end up in logs and in listings, and payloads must not.

/// What serde says, without what it found.
#[doc(hidden)]
pub fn unfit(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let place = said.rfind(" at line ").map_or("", |at| &said[at..]);
    let said = said.strip_suffix(place).unwrap_or(&said);
    format!("{}{place}", about_the_type(said))
}

/// The part that speaks of the type, and not of the value.
fn about_the_type(said: &str) -> &str {
    const QUOTING: [&str; 5] =
        ["invalid type", "invalid value", "invalid length", "unknown variant", "unknown field"];
    if said.starts_with("missing field") || said.starts_with("duplicate field") {
        return said;
    }
    // The last one: the value that is quoted may have the same words in it.
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
    fn it_is_said_what_was_expected_and_where() {
        assert_eq!(reason("{}"), "missing field `_units` at line 1 column 2");
        assert_eq!(reason(r#"{"_units":"two"}"#), "expected u8 at line 1 column 15");
        assert_eq!(reason(r#"{"_units":300}"#), "expected u8 at line 1 column 13");
    }

    #[test]
    fn nothing_of_what_was_found_is_said() {
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
