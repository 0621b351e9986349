//! Bytes in JSON: as text where they are text, so that an operator can read them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes that are serialized as text if they are UTF-8, and otherwise as base64.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BytesOrText(pub(crate) Bytes);

#[derive(Serialize)]
#[serde(untagged)]
enum Written<'a> {
    Text(&'a str),
    Base64 { base64: String },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Read {
    Text(String),
    Base64 { base64: String },
}

impl Serialize for BytesOrText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let written = match std::str::from_utf8(&self.0) {
            // No store accepts a NUL in a text.
            Ok(text) if !text.contains('\0') => Written::Text(text),
            _ => Written::Base64 { base64: STANDARD.encode(&self.0) },
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for BytesOrText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = match Read::deserialize(deserializer)? {
            Read::Text(text) => text.into_bytes(),
            Read::Base64 { base64 } => STANDARD.decode(base64).map_err(D::Error::custom)?,
        };
        Ok(Self(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_readable_and_bytes_round_trip() {
        let written = |bytes: &'static [u8]| {
            let json = serde_json::to_string(&BytesOrText(bytes.into())).unwrap();
            assert_eq!(serde_json::from_str::<BytesOrText>(&json).unwrap().0, bytes);
            json
        };
        assert_eq!(written(b"paid"), "\"paid\"");
        assert_eq!(written("ä\n".as_bytes()), r#""ä\n""#);
        assert_eq!(written(b"\xff\x00"), r#"{"base64":"/wA="}"#);
        assert_eq!(written(b"a\0b"), r#"{"base64":"YQBi"}"#);
        assert_eq!(written(b""), "\"\"");
    }
}
