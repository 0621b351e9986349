//! The names of locks, singletons and quotas in a path: parts separated by slashes, as in lists.
//!
//! `door/7` is the lock `door` of `7`, however it was acquired. A slash that is part of a name is
//! written `%2F`, as in lists; so every name of a list can be requested.

use tidelock::problem::Problem;
use tidelock::store::WorkerName;

/// The parts of a name: the first, and the qualifiers.
pub(super) fn parts(name: &str) -> Result<(String, Vec<String>), Problem> {
    let mut parts = name.split('/').map(unescaped);
    let first = parts.next().unwrap_or_default();
    let rest: Vec<String> = parts.collect();
    if first.is_empty() || rest.iter().any(String::is_empty) {
        let detail = format!("the name {name:?} has an empty part");
        return Err(Problem::bad_request("name-invalid", detail));
    }
    Ok((first, rest))
}

/// Undoes the escaping of lists; other text is unchanged.
pub(super) fn unescaped(part: &str) -> String {
    let part = match part.strip_prefix("%70er ") {
        Some(rest) => format!("per {rest}"),
        None => part.to_owned(),
    };
    part.replace("%2F", "/").replace("%25", "%")
}

/// The caller's name, as it is shown to others.
pub(super) fn who(name: &str) -> Result<WorkerName, Problem> {
    WorkerName::new(name).map_err(|error| {
        let detail = format!("the caller's name is invalid: {}", error.context());
        Problem::bad_request("name-invalid", detail)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_parsed_as_lists_show_it() {
        let of = |name: &str| parts(name).map(|(first, rest)| (first, rest.join("|"))).unwrap();
        assert_eq!(of("door"), ("door".into(), String::new()));
        assert_eq!(of("door/7/left"), ("door".into(), "7|left".into()));
        assert_eq!(of("a%2Fb/100%25"), ("a/b".into(), "100%".into()));
        assert_eq!(of("a/%70er day"), ("a".into(), "per day".into()));
        assert_eq!(of("100%"), ("100%".into(), String::new()));
        for empty in ["", "/", "a//b", "a/"] {
            assert!(parts(empty).is_err(), "{empty}");
        }
    }
}
