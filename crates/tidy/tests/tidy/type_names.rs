//! Public type names: no two public types of the published crates share a name.
//!
//! A reader who imports two crates meets one meaning per name. A re-export declares no second type.

use std::collections::BTreeMap;

use tidelock_tidy::{Source, sources};

const CRATES: &[&str] = &[
    "crates/tidelock/src/",
    "crates/store/src/",
    "crates/store-sqlite/src/",
    "crates/store-postgres/src/",
    "crates/tower/src/",
    "crates/http/src/",
    "crates/store-conformance/src/",
    "crates/sqlx/src/",
];
const KINDS: &[&str] = &["pub struct ", "pub enum ", "pub trait ", "pub type ", "pub union "];

/// Macros that declare the type that stands first in a call of them.
const MACROS: &[&str] = &["name!(", "id!(", "number!("];

/// Names that two types share, and why. This list only gets shorter.
const SHARED: &[(&str, &str)] = &[
    ("Result", "one with a `StoreError`, one with a `tidelock::Error`, as in `std::io`"),
    ("Runs", "the client of runs, and how many runs the conformance suite's model test makes"),
    ("Sealed", "seals a trait of its module, and cannot be named outside"),
    ("Subject", "what a finding of the doctor is about, and the store that the suite tests"),
];

#[test]
fn no_two_public_types_share_a_name() {
    let sources = sources(".rs");
    let covered =
        sources.iter().filter(|source| CRATES.iter().any(|of| source.path.starts_with(of)));
    let shared = shared(covered);
    for (name, places) in &shared {
        let places = places.join("\n  ");
        assert!(
            SHARED.iter().any(|(known, _)| known == name),
            "{name} is the name of two types; rename one:\n  {places}"
        );
    }
    for (name, _) in SHARED {
        assert!(shared.contains_key(*name), "{name} is shared no more; remove it from the list");
    }
}

#[test]
fn a_shared_name_is_found_and_a_re_export_is_not() {
    let one = Source::new("crates/store/src/a.rs", "pub struct A;\npub(crate) struct B;\n");
    let two =
        Source::new("crates/http/src/a.rs", "pub enum A {}\npub struct B<T>(T);\npub use x::B;\n");
    assert_eq!(shared([&one, &two]).into_keys().collect::<Vec<_>>(), ["A"]);

    let made = Source::new("crates/store/src/a.rs", "name!(\n    /// A.\n    A, \"a\"\n);\n");
    let inner = Source::new("crates/tower/src/a.rs", "pin_project! {\n    pub struct A {}\n}\n");
    assert_eq!(shared([&made, &inner]).into_keys().collect::<Vec<_>>(), ["A"]);
}

fn shared<'a>(sources: impl IntoIterator<Item = &'a Source>) -> BTreeMap<String, Vec<String>> {
    let mut declared = BTreeMap::<String, Vec<String>>::new();
    for source in sources {
        for (number, name) in declared_types(source) {
            let place = format!("{}:{number}", source.path);
            declared.entry(name.to_owned()).or_default().push(place);
        }
    }
    declared.retain(|_, places| places.len() > 1);
    declared
}

/// The types that a file declares, also inside a macro call, or by one.
fn declared_types(source: &Source) -> Vec<(usize, &str)> {
    let (mut found, mut in_macro) = (Vec::new(), false);
    for (number, line) in source.product_lines() {
        in_macro |= MACROS.contains(&line);
        let line = line.trim_start();
        let is_first = in_macro && line.starts_with(char::is_alphabetic) && !MACROS.contains(&line);
        let rest = KINDS.iter().find_map(|kind| line.strip_prefix(kind));
        if let Some(rest) = rest.or(is_first.then_some(line)) {
            in_macro = false;
            let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next();
            // A macro's own `pub struct $name` has no name.
            found.extend(name.filter(|name| !name.is_empty()).map(|name| (number, name)));
        }
    }
    found
}
