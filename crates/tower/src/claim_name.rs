//! The name of a claim: scope and key.

use std::fmt::Write as _;

use crate::key::Key;
use crate::limits::NAME_BYTES;
use crate::problem::Problem;

/// The name under which this key of this scope is claimed. It is unique among all scopes and keys,
/// and among the claims of a program, unless they begin with `http:`.
pub(crate) fn of(scope: Option<&str>, key: &Key) -> Result<String, Problem> {
    let mut name = String::from("http:");
    if let Some(scope) = scope {
        push_plain(&mut name, scope);
    }
    name.push(':');
    push_plain(&mut name, key.as_str());
    match stored_bytes(&name) {
        0..=NAME_BYTES => Ok(name),
        _ => Err(Problem::KeyMalformed("together with its scope, it is too long to be stored")),
    }
}

/// Percent-encodes separators and what cannot be stored, with `=` for `%`, which claims use
/// themselves.
fn push_plain(name: &mut String, part: &str) {
    for byte in part.bytes() {
        match byte {
            b':' | b'=' | b'/' | b'%' | 0..=0x20 | 0x7f.. => {
                write!(name, "={byte:02X}").expect("a string takes whatever is written to it");
            }
            plain => name.push(char::from(plain)),
        }
    }
}

fn stored_bytes(name: &str) -> usize {
    "idempotency/".len() + name.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(scope: Option<&str>, key: &str) -> String {
        of(scope, &Key::parse(format!("\"{key}\"").as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn no_two_keys_share_a_name() {
        assert_eq!(name(None, "pay-42"), "http::pay-42");
        assert_eq!(name(Some("acme"), "a/b"), "http:acme:a=2Fb");
        assert_ne!(name(Some("a:b"), "c"), name(Some("a"), "b:c"));
        assert_ne!(name(Some("a"), "b=2Fc"), name(Some("a"), "b/c"));
        assert_eq!(name(Some("ä\n"), "k"), "http:=C3=A4=0A:k");
    }

    #[test]
    fn a_name_that_cannot_be_stored_is_refused() {
        let key = Key::parse(b"k").unwrap();
        assert!(of(Some(&"s".repeat(400)), &key).is_ok());
        assert!(of(Some(&"s".repeat(500)), &key).is_err());
        let slashes = Key::parse("/".repeat(255).as_bytes()).unwrap();
        assert!(of(None, &slashes).is_err());
    }
}
