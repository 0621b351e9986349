//! A key, as the header has it.
//!
//! The header is a string of RFC 8941: `"8e03978e-40d5-43e8-bc93-6894a57f9324"`, with its quotes.
//! Many clients leave them out, and mean the same; so both are read, and are one key. What could be
//! read in two ways is refused: a client that means another key than the one that is read has its
//! request done twice, or not at all.

use crate::limits::KEY_BYTES;

/// What a client calls its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    /// The key in this field, or what is wrong with it.
    pub(crate) fn parse(field: &[u8]) -> Result<Self, &'static str> {
        let field = field.trim_ascii();
        let key = match field {
            [b'"', quoted @ .., b'"'] => quoted_string(quoted)?,
            [b'"', ..] => return Err("its closing quote is missing, or something follows it"),
            bare => bare_string(bare)?,
        };
        match key.len() {
            0 => Err("it is empty"),
            1..=KEY_BYTES => Ok(Self(key)),
            _ => Err("it is longer than 255 characters"),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is between the quotes, with its escapes undone.
fn quoted_string(quoted: &[u8]) -> Result<String, &'static str> {
    let (mut key, mut bytes) = (String::new(), quoted.iter());
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => match bytes.next() {
                Some(escaped @ (b'"' | b'\\')) => key.push(char::from(*escaped)),
                _ => return Err("a backslash in it is not before a quote or a backslash"),
            },
            b'"' => return Err("there is a quote in it without a backslash before it"),
            0x20..=0x7e => key.push(char::from(*byte)),
            _ => return Err("there is something in it that is not printable ASCII"),
        }
    }
    Ok(key)
}

/// A key without quotes. What would mean something else with them, or in a list of several keys, is
/// not in it.
fn bare_string(bare: &[u8]) -> Result<String, &'static str> {
    let fits = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b',' | b';');
    match bare.iter().all(fits) {
        true => Ok(bare.iter().copied().map(char::from).collect()),
        false => Err(
            "without quotes, it may only be printable ASCII without spaces, quotes, backslashes, commas and semicolons",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(field: &str) -> Option<String> {
        Key::parse(field.as_bytes()).ok().map(|key| key.0)
    }

    #[test]
    fn a_key_is_the_same_with_quotes_and_without() {
        assert_eq!(key("\"pay-42\"").as_deref(), Some("pay-42"));
        assert_eq!(key(" pay-42 ").as_deref(), Some("pay-42"));
        assert_eq!(key(r#""a \"b\" \\ c""#).as_deref(), Some(r#"a "b" \ c"#));
        assert_eq!(key(&"k".repeat(KEY_BYTES)).map(|key| key.len()), Some(KEY_BYTES));
    }

    #[test]
    fn what_can_be_read_in_two_ways_is_refused() {
        let wrong = [
            "",
            "\"\"",
            "\"",
            "\"a",
            "a\"",
            "a b",
            "a,b",
            "a;b",
            "\"a\";b=1",
            "\"a\", \"b\"",
            r#""\a""#,
        ];
        for field in wrong {
            assert_eq!(key(field), None, "{field}");
        }
        for field in [&b"\"a\tb\""[..], b"a\x7f", b"\"\xc3\xa4\"", b"\xff", b"a\nb"] {
            assert!(Key::parse(field).is_err(), "{field:?}");
        }
        assert_eq!(key(&"k".repeat(KEY_BYTES + 1)), None);
    }
}
