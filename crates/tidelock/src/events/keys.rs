//! Stream names and record keys of this module, spelled only here.
//!
//! Names that Tidelock uses internally start with `~`; user names must not.

use tidelock_store::{EventId, RecordKey, Result, StoreError, StreamName};

/// Stream of an aggregate: `kind-id`.
pub(crate) fn stream(kind: &str, id: &str) -> Result<StreamName> {
    if kind.is_empty() || kind.starts_with('~') || kind.contains('-') {
        return Err(StoreError::invalid(format!(
            "kind {kind:?} of an aggregate: it must not be empty, begin with \"~\" or have a \"-\" in it, so that \
             kind and id can be told apart in the name of a stream"
        )));
    }
    if id.is_empty() {
        return Err(StoreError::invalid(format!("an aggregate of kind {kind:?} with an empty id")));
    }
    StreamName::new(format!("{kind}-{id}"))
}

/// Record of a stream's newest snapshot.
pub(crate) fn snapshot(stream: &StreamName) -> Result<RecordKey> {
    RecordKey::new(format!("~snapshot/{stream}"))
}

/// Record of an operation's result on a stream.
pub(crate) fn operation(stream: &StreamName, operation: &str) -> Result<RecordKey> {
    if operation.is_empty() {
        return Err(StoreError::invalid(format!(
            "stream {stream:?}: an operation with an empty id"
        )));
    }
    RecordKey::new(format!("~operation/{}/{operation}", escaped(stream.as_str())))
}

/// Record of the personal data of one event about one subject.
pub(crate) fn personal(subject: &str, event: EventId) -> Result<RecordKey> {
    RecordKey::new(format!("{}{event}", personal_of(subject)))
}

/// Key prefix of all personal data about one subject.
pub(crate) fn personal_of(subject: &str) -> String {
    format!("~personal/{}/", escaped(subject))
}

/// Mark of an erased subject.
pub(crate) fn erased(subject: &str) -> Result<RecordKey> {
    RecordKey::new(format!("~erased/{}", escaped(subject)))
}

/// Returns the subject of an erasure mark.
pub(crate) fn erased_subject(key: &RecordKey) -> Option<String> {
    let escaped = key.as_str().strip_prefix("~erased/")?;
    Some(escaped.replace("%2F", "/").replace("%25", "%"))
}

/// A record that is never written.
pub(crate) fn nothing() -> Result<RecordKey> {
    RecordKey::new("~nothing")
}

/// Escapes slashes, so that no subject's keys are below another's.
fn escaped(subject: &str) -> String {
    subject.replace('%', "%25").replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_id_are_unambiguous() {
        assert_eq!(stream("stock", "sku-7").unwrap().as_str(), "stock-sku-7");
        for (kind, id) in
            [("", "7"), ("~links", "7"), ("a-b", "7"), ("stock", ""), ("stock", "a\nb")]
        {
            stream(kind, id).expect_err(kind);
        }
        assert!(
            stream("stock", &"7".repeat(300)).unwrap_err().to_string().contains("the limit is 256")
        );
        assert_eq!(stream("stock", "~7/ü %").unwrap().as_str(), "stock-~7/ü %");
    }

    #[test]
    fn no_subjects_keys_are_below_anothers() {
        let event = EventId::from_bytes([1; 16]);
        assert!(!personal("a/b", event).unwrap().as_str().starts_with(&personal_of("a")));
        assert_ne!(erased("a/b").unwrap(), erased("a%2Fb").unwrap());
        for subject in ["a/b", "a%2Fb", "%", "user-7"] {
            assert_eq!(erased_subject(&erased(subject).unwrap()).unwrap(), subject);
        }
    }
}
