//! Opaque cursors for lists whose keys are not plain names.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer, Serialize};
use tidelock::store::Version;

/// A position in a list.
#[derive(Debug, Clone)]
pub(super) struct Cursor<T>(pub(super) T);

impl<T: Serialize> fmt::Display for Cursor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = serde_json::to_vec(&self.0).map_err(|_| fmt::Error)?;
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(place))
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Cursor<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let place = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
        let place = place.and_then(|place| serde_json::from_slice(&place).ok());
        place.map(Self).ok_or_else(|| D::Error::custom("`after` is not the `next` of a page"))
    }
}

/// A place in a stream: the last version that was read, 0 before the first.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "u64")]
pub(super) struct VersionCursor(u64);

impl VersionCursor {
    /// The cursor of a page before this version.
    pub(super) fn before(next: Version, backward: bool) -> Self {
        Self(if backward { next.get() + 1 } else { next.get() - 1 })
    }

    /// The first version after it; none if nothing can follow.
    pub(super) fn first(self, backward: bool) -> Option<Version> {
        let from = if backward { self.0.checked_sub(1) } else { self.0.checked_add(1) };
        Version::new(from?).ok()
    }
}

impl TryFrom<u64> for VersionCursor {
    type Error = &'static str;

    fn try_from(version: u64) -> Result<Self, Self::Error> {
        match i64::try_from(version) {
            Ok(_) => Ok(Self(version)),
            Err(_) => Err("`after` is not the `next` of a page"),
        }
    }
}

impl fmt::Display for VersionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidelock::store::ItemRef;

    #[test]
    fn a_cursor_round_trips() {
        let place = ItemRef::parse("mail/~", "a b&c=\u{e9}").unwrap();
        let text = Cursor(place.clone()).to_string();
        assert!(text.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)), "{text}");
        let back: Cursor<ItemRef> = serde_json::from_value(text.into()).unwrap();
        assert_eq!(back.0, place);
        for odd in ["", "%", "e30", "AA"] {
            assert!(serde_json::from_value::<Cursor<ItemRef>>(odd.into()).is_err(), "{odd}");
        }
    }
}
