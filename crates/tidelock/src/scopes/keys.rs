//! Record keys of this module, spelled only here.

use tidelock_store::{RecordKey, Result, StoreError};

use super::kind::ScopeKind;

const DOCUMENT: &str = "~scope/";

/// Key prefix of the documents of a kind, narrowed by an id prefix; of all kinds if none is given.
pub(crate) fn documents(kind: Option<&str>, id_prefix: &str) -> String {
    kind.map_or(DOCUMENT.to_owned(), |kind| format!("{DOCUMENT}{kind}/{id_prefix}"))
}

/// Returns the kind and the id of a scope from its document's key.
pub(crate) fn named(document: &RecordKey) -> Option<(&str, &str)> {
    document.as_str().strip_prefix(DOCUMENT)?.split_once('/')
}

/// Record of a scope's document.
pub(super) fn document(kind: &ScopeKind, id: &str) -> Result<RecordKey> {
    let kind = kind.name();
    if kind.is_empty() || kind.starts_with('~') || kind.contains('/') {
        return Err(StoreError::invalid(format!(
            "kind {kind:?} of a scope: it must not be empty, begin with \"~\" or have a \"/\" in it, so that kind and id can \
             be told apart in the key of a record"
        )));
    }
    if id.is_empty() {
        return Err(StoreError::invalid(format!("a scope of kind {kind:?} with an empty id")));
    }
    RecordKey::new(format!("{DOCUMENT}{kind}/{id}"))
}

/// Record of an operation's result on a scope.
pub(super) fn operation(document: &RecordKey, operation: &str) -> Result<RecordKey> {
    if operation.is_empty() {
        return Err(StoreError::invalid(format!(
            "scope {document:?}: an operation with an empty id"
        )));
    }
    let scope = document.as_str().trim_start_matches(DOCUMENT);
    // Escapes slashes, so that no scope's operations are below another's.
    let scope = scope.replace('%', "%25").replace('/', "%2F");
    RecordKey::new(format!("~scope-operation/{scope}/{operation}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_id_are_unambiguous() {
        assert_eq!(document(&ScopeKind::USER, "a/b").unwrap().as_str(), "~scope/user/a/b");
        for (kind, id) in [("", "7"), ("~x", "7"), ("a/b", "7"), ("cart", ""), ("cart", "a\nb")] {
            document(&ScopeKind::custom(kind), id).expect_err(kind);
        }
    }

    #[test]
    fn no_scopes_operations_are_below_anothers() {
        let of = |id: &str, name: &str| {
            operation(&document(&ScopeKind::USER, id).unwrap(), name).unwrap()
        };
        assert_ne!(of("a", "b/c"), of("a/b", "c"));
        assert_ne!(of("a%2Fb", "c"), of("a/b", "c"));
        operation(&document(&ScopeKind::USER, "a").unwrap(), "").expect_err("no id");
    }
}
