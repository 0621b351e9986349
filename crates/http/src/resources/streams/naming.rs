//! The ids of events that come under an `Idempotency-Key` and have none of their own.
//!
//! A server that dies after it appended, and before it kept its answer, leaves a key of which nobody knows what became. Whoever sends the same
//! again then appends the same events under the same ids, and the store answers with what it did the first time.

use http::{HeaderMap, HeaderName};
use sha2::{Digest, Sha256};
use tidelock::{EventId, StreamName};

use super::append::Appending;
use crate::auth::Caller;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Gives each event without an id one that the same request would give it again. Without a key there is none that is the same.
pub(super) fn name(events: &mut [Appending], caller: &Caller, stream: &StreamName, headers: &HeaderMap) {
    let Some(key) = headers.get(&KEY) else { return };
    for (nth, event) in events.iter_mut().enumerate().filter(|(_, event)| event.id.is_none()) {
        let metadata = event.metadata.as_ref().map_or("", |metadata| metadata.as_str());
        let parts: [&[u8]; 7] = [
            caller.shown().as_bytes(),
            key.as_bytes(),
            stream.as_str().as_bytes(),
            &nth.to_be_bytes(),
            event.event_type.as_str().as_bytes(),
            event.data.as_str().as_bytes(),
            metadata.as_bytes(),
        ];
        event.id = Some(id_of(&parts));
    }
}

fn id_of(parts: &[&[u8]]) -> EventId {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let mut id = [0; 16];
    id.copy_from_slice(&digest.finalize()[..16]);
    // Version 8 of the variant that everybody uses: made by whoever made it.
    id[6] = (id[6] & 0x0f) | 0x80;
    id[8] = (id[8] & 0x3f) | 0x80;
    EventId::from_bytes(id)
}
