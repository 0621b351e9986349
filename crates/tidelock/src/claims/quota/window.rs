//! The open window of a quota, and the seal of what is taken from it.
//!
//! The record of a window has a secret, and every grant a seal made with it. So a refund recognizes
//! a grant that was made, without a record for each.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidelock_store::{RawJson, Result, Revision, Slot, Timestamp, fresh_uuid};
use uuid::Uuid;

use super::Grant;

/// An open window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Window {
    pub(in super::super) revision: Revision,
    pub(in super::super) end: Option<Timestamp>,
    /// Unknown for windows that older programs opened.
    pub(super) secret: Option<Secret>,
    /// The revision of its counter, if this process has just opened it.
    pub(super) opened: Option<Revision>,
}

/// With which the grants of one window are sealed.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(in super::super) struct Secret(Uuid);

/// Content of a window's record.
#[derive(Serialize, Deserialize)]
struct WindowContent {
    /// The label of its period.
    label: String,
    secret: Secret,
}

impl Window {
    pub(super) fn of(slot: &Slot) -> Option<Self> {
        slot.live().map(|record| {
            let content = record.value.to::<WindowContent>().ok();
            let secret = content.map(|content| content.secret);
            Self { revision: record.revision, end: record.expires_at, secret, opened: None }
        })
    }

    /// The content of a new window's record.
    pub(super) fn content(label: &str, secret: Secret) -> Result<RawJson> {
        RawJson::new(&WindowContent { label: label.to_owned(), secret })
    }

    /// The grant with its seal.
    pub(super) fn seal(&self, grant: Grant) -> Grant {
        let secret = self.secret.filter(|_| grant.window == self.revision);
        Grant { seal: secret.map(|secret| secret.of(&grant)), ..grant }
    }

    /// Whether this grant of the window was made like this.
    pub(super) fn has_made(&self, grant: &Grant) -> bool {
        self.secret.is_none_or(|secret| grant.seal == Some(secret.of(grant)))
    }
}

impl Secret {
    /// A new one. An id alone could be guessed from others that were made at the same time.
    pub(super) fn fresh() -> Self {
        let ids = [fresh_uuid(), fresh_uuid(), fresh_uuid()].map(Uuid::into_bytes);
        Self(Uuid::new_v5(&fresh_uuid(), ids.as_flattened()))
    }

    /// The seal of a grant.
    fn of(self, grant: &Grant) -> Uuid {
        let Grant { id, quota, units, window, ends, reserved, .. } = grant;
        let ends = ends.map(Timestamp::micros);
        let said = format!("{id} {units} {window} {ends:?} {reserved} {quota}");
        Uuid::new_v5(&self.0, said.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
