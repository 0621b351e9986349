//! Parses the `Idempotency-Key` header.
//!
//! The header is a string of RFC 8941: `"8e03978e-40d5-43e8-bc93-6894a57f9324"`, with its quotes.
//! Many clients omit them; so both forms are accepted, and are one key. An ambiguous header is
//! refused: reading another key than the client means would carry out its request twice, or not at
//! all.

use crate::limits::KEY_BYTES;

/// The client's key for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key(String);

impl Key {
    /// Parses a header value.
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

/// The text between the quotes, unescaped.
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

/// A key without quotes. Characters that would mean something else with them, or in a list of keys,
/// are refused.
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
    fn ambiguous_keys_are_refused() {
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
