//! Crate edges: which crate may depend on which, as a table.
//!
//! A new edge fails here first. Add it to the table only if the architecture allows it: the
//! contract knows no other crate, patterns know no database, nothing that is published depends on a
//! crate for tests.

use tidelock_tidy::{Findings, Source, sources};

/// A crate, and the crates of this workspace that its product code and its tests may use. A crate
/// may always use in its tests what it uses in its product code.
const EDGES: &[(&str, &[&str], &[&str])] = &[
    (
        "tidelock-bench",
        &["tidelock", "tidelock-http", "tidelock-test-postgres", "tidelock-tower"],
        &[],
    ),
    ("tidelock-bench-peers", &[], &[]),
    (
        "tidelock-cli",
        &["tidelock", "tidelock-http"],
        &["tidelock-test-postgres", "tidelock-test-stage"],
    ),
    ("tidelock-derive", &[], &[]),
    (
        "tidelock-http",
        &["tidelock", "tidelock-tower"],
        &["tidelock-test-postgres", "tidelock-test-stage"],
    ),
    (
        "tidelock-sim",
        &[
            "tidelock",
            "tidelock-cli",
            "tidelock-test-disk",
            "tidelock-test-postgres",
            "tidelock-test-stage",
            "tidelock-tower",
        ],
        &[],
    ),
    ("tidelock-sqlx", &["tidelock"], &["tidelock-test-stage"]),
    ("tidelock-store-conformance", &["tidelock-store"], &[]),
    (
        "tidelock-store-postgres",
        &["tidelock-store"],
        &["tidelock-store-conformance", "tidelock-store-sqlite", "tidelock-test-postgres"],
    ),
    (
        "tidelock-store-sqlite",
        &["tidelock-store"],
        &["tidelock-store-conformance", "tidelock-test-disk"],
    ),
    ("tidelock-store", &[], &[]),
    ("tidelock-stress", &["tidelock", "tidelock-sim", "tidelock-test-postgres"], &[]),
    ("tidelock-test-disk", &[], &[]),
    ("tidelock-test-postgres", &[], &[]),
    ("tidelock-test-run", &[], &[]),
    ("tidelock-test-stage", &["tidelock", "tidelock-test-postgres"], &[]),
    (
        "tidelock",
        &["tidelock-derive", "tidelock-store", "tidelock-store-postgres", "tidelock-store-sqlite"],
        &["tidelock-test-postgres", "tidelock-test-stage"],
    ),
    ("tidelock-tidy", &[], &[]),
    (
        "tidelock-tower",
        &["tidelock"],
        &["tidelock-test-postgres", "tidelock-test-stage", "tidelock-tower"],
    ),
    (
        "tidelock-tutorial",
        &["tidelock", "tidelock-http", "tidelock-tower"],
        &["tidelock-test-stage"],
    ),
];

/// Database drivers, and the crates that may know one.
const DRIVERS: &[&str] = &["rusqlite", "tokio-postgres", "sqlx08", "sqlx09"];
const KNOW_A_DRIVER: &[&str] = &[
    "tidelock-store-sqlite",
    "tidelock-store-postgres",
    "tidelock-bench",
    "tidelock-sqlx",
    "tidelock-test-stage",
];

#[test]
fn crates_depend_only_on_the_crates_in_the_table() {
    let mut findings = Findings::default();
    for manifest in sources("Cargo.toml").iter().filter(|file| file.path.starts_with("crates/")) {
        check(manifest, &mut findings);
    }
    findings.assert_none("Edges between crates (the table is in crates/tidy/tests/tidy/edges.rs):");
}

#[test]
fn an_edge_that_is_not_in_the_table_is_found() {
    let count = |text: &str| {
        let mut findings = Findings::default();
        check(&Source::new("crates/store/Cargo.toml", text), &mut findings);
        findings.count()
    };
    let package = "[package]\nname = \"tidelock-store\"\n";
    assert_eq!(count(&format!("{package}[dependencies]\ntidelock.workspace = true\n")), 1);
    assert_eq!(count(&format!("{package}[dependencies.tidelock-http]\npath = \"x\"\n")), 1);
    assert_eq!(
        count(&format!("{package}[dev-dependencies]\ntidelock-http = {{ path = \"x\" }}\n")),
        1
    );
    assert_eq!(count(&format!("{package}[dependencies]\nrusqlite.workspace = true\n")), 1);
    assert_eq!(count(&format!("{package}[dependencies]\nuuid.workspace = true\n")), 0);
    assert_eq!(count("[package]\nname = \"tidelock-new\"\n"), 1);
}

fn check(manifest: &Source, findings: &mut Findings) {
    let name = manifest.lines().find_map(|(_, line)| line.strip_prefix("name = "));
    let name = name.unwrap_or_default().trim_matches('"');
    let Some((_, product, tests)) = EDGES.iter().find(|(of, ..)| *of == name) else {
        findings.add(
            &manifest.path,
            1,
            format!("{name:?} is not in the table; add it with its edges"),
        );
        return;
    };
    let mut section = "";
    for (number, line) in manifest.lines() {
        let mut used = line.split(['.', ' ', '=']).next().unwrap_or_default();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            used = section.rsplit("dependencies.").next().unwrap_or_default();
        }
        if !section.contains("dependencies") {
            continue;
        }
        let for_tests = section.contains("dev-dependencies");
        let allowed = product.contains(&used) || (for_tests && tests.contains(&used));
        if used.starts_with("tidelock") && !allowed {
            findings.add(&manifest.path, number, format!("{name} may not depend on {used}"));
        }
        if DRIVERS.contains(&used) && !for_tests && !KNOW_A_DRIVER.contains(&name) {
            findings.add(&manifest.path, number, format!("{name} may not know the driver {used}"));
        }
    }
}
