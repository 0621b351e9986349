//! Bounds: what a caller can run into is a constant of `limits.rs`.
//!
//! In the published crates, a number that other modules or callers see (`pub const`), and every
//! number that is called a maximum or a limit, is declared in a file named `limits.rs`. How a
//! module tunes itself (batch sizes, attempts) may stay with the module.

use tidelock_tidy::{Findings, Source, sources};

const CRATES: &[&str] = &[
    "crates/store/src/",
    "crates/store-sqlite/src/",
    "crates/store-postgres/src/",
    "crates/tidelock/src/",
    "crates/tower/src/",
    "crates/http/src/",
];
const NUMBERS: &[&str] = &["u8", "u16", "u32", "u64", "u128", "usize", "i32", "i64"];

/// Public numbers that bound nothing.
const NO_BOUNDS: &[&str] = &["SCHEMA_VERSION"];

#[test]
fn bounds_are_declared_in_limits_rs() {
    let mut findings = Findings::default();
    sources(".rs").iter().for_each(|source| check(source, &mut findings));
    findings.assert_none("Bounds are declared in limits.rs:");
}

#[test]
fn a_bound_elsewhere_is_found() {
    let count = |path: &str, text: &str| {
        let mut findings = Findings::default();
        check(&Source::new(path, text), &mut findings);
        findings.count()
    };
    let bounds =
        "pub const ROWS: usize = 1;\nconst MAX_ROWS: u32 = 1;\nconst ROW_LIMIT: i64 = 1;\n";
    assert_eq!(count("crates/store/src/memory.rs", bounds), 3);
    assert_eq!(count("crates/store/src/limits.rs", bounds), 0);
    assert_eq!(count("crates/store/src/memory.rs", "const BATCH: usize = 1;"), 0);
}

fn check(source: &Source, findings: &mut Findings) {
    let covered = CRATES.iter().any(|start| source.path.starts_with(start));
    if !covered || source.file_name() == "limits.rs" {
        return;
    }
    for (number, line) in source.product_lines() {
        if let Some(name) = bound(line.trim_start()) {
            findings.add(&source.path, number, format!("move {name} to the crate's limits.rs"));
        }
    }
}

/// The name of the bound that a line declares.
fn bound(line: &str) -> Option<&str> {
    let (visibility, rest) = line.split_once("const ")?;
    let (name, rest) = rest.split_once(": ")?;
    let is_number = NUMBERS.contains(&rest.split([' ', ';']).next()?);
    let is_called_so =
        name.starts_with("MAX_") || name.ends_with("_MAX") || name.ends_with("LIMIT");
    let is_bound = is_called_so || (visibility == "pub " && !NO_BOUNDS.contains(&name));
    (is_number && is_bound).then_some(name)
}
