//! Reserved names: a string that begins with `~` is spelled only in a file named `keys.rs`.
//!
//! Record keys, queues and streams that Tidelock uses for itself begin with `~`. Tests may spell
//! them, so that a changed key turns a test red.

use tidelock_tidy::{Findings, Source, sources};

const CRATES: &[&str] =
    &["crates/tidelock/src/", "crates/tower/src/", "crates/http/src/", "crates/cli/src/"];

/// Files with strings that begin with `~` and are no keys.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("crates/tidelock/src/runs/history/entry.rs", "the event types of a run's history"),
    ("crates/tidelock/src/events/personal.rs", "the field that marks personal data in a payload"),
];

#[test]
fn reserved_names_are_spelled_only_in_keys_rs() {
    let mut findings = Findings::default();
    sources(".rs").iter().for_each(|source| check(source, &mut findings));
    findings.assert_none("Reserved names are spelled in the pattern's keys.rs:");
}

#[test]
fn every_exception_is_needed() {
    let all = sources(".rs");
    for (path, why) in EXCEPTIONS {
        let source = all.iter().find(|source| source.path == *path);
        let used = source.is_some_and(|source| spelled(source).next().is_some());
        assert!(used, "{path}: remove the exception ({why}); nothing there needs it");
    }
}

#[test]
fn a_key_in_product_code_is_found_and_one_in_a_test_is_not() {
    let count = |path: &str, text: &str| {
        let mut findings = Findings::default();
        check(&Source::new(path, text), &mut findings);
        findings.count()
    };
    let text = "//! A \"~key\".\nlet key = format!(\"~claim/{id}\");\n";
    assert_eq!(count("crates/tidelock/src/claims/lock.rs", text), 1);
    assert_eq!(count("crates/tidelock/src/claims/keys.rs", text), 0);
    let tests = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
    assert_eq!(count("crates/tidelock/src/claims/lock.rs", &tests), 0);
}

fn check(source: &Source, findings: &mut Findings) {
    let covered = CRATES.iter().any(|start| source.path.starts_with(start));
    let exempt = EXCEPTIONS.iter().any(|(path, _)| *path == source.path);
    if covered && !exempt && source.file_name() != "keys.rs" {
        for number in spelled(source) {
            findings.add(&source.path, number, "move the name that begins with ~ to keys.rs");
        }
    }
}

/// The lines of product code that spell a name that begins with `~`.
fn spelled(source: &Source) -> impl Iterator<Item = usize> {
    source
        .product_lines()
        .filter(|(_, line)| !line.trim_start().starts_with("//") && line.contains("\"~"))
        .map(|(number, _)| number)
}
