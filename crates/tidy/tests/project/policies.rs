//! The policies: found from the pages that readers begin with, and true where that can be checked.

use crate::file;

#[test]
fn the_policies_are_linked_from_the_readme() {
    let readme = file("README.md");
    for page in ["SECURITY.md", "STABILITY.md", "CONTRIBUTING.md", "CHANGELOG.md"] {
        assert!(readme.contains(&format!("]({page})")), "README.md does not link {page}");
    }
}

/// Of every schema but the newest there is a fixture, as STABILITY.md says.
#[test]
fn stores_of_every_older_schema_are_kept() {
    for store in ["sqlite", "postgres"] {
        let newest = tidelock_tidy::sources(".sql")
            .iter()
            .filter(|file| file.path.starts_with(&format!("crates/store-{store}/migrations/")))
            .count();
        assert!(newest >= 2, "the migrations of {store} were not found");
        for version in 1..newest {
            file(&format!("crates/test-stage/fixtures/{store}-{version}.sql"));
        }
    }
}

/// What SECURITY.md says of every crate.
#[test]
fn no_crate_allows_unsafe_code() {
    assert!(file("Cargo.toml").contains("\nunsafe_code = \"forbid\"\n"));
    for manifest in tidelock_tidy::sources("Cargo.toml") {
        // The tutorial is what a reader types.
        if manifest.path.starts_with("crates/") && manifest.path != "crates/tutorial/Cargo.toml" {
            let inherits = manifest.text.contains("[lints]\nworkspace = true");
            // A program outside of the workspace cannot.
            let forbids = manifest.text.contains("\n[workspace]\n")
                && manifest.text.contains("\nunsafe_code = \"forbid\"\n");
            assert!(inherits || forbids, "{} allows unsafe code", manifest.path);
        }
    }
}

/// One implementation of TLS and of cryptography: what deny.toml refuses is not in the lock file.
#[test]
fn what_is_denied_is_not_locked() {
    let (deny, lock) = (file("deny.toml"), file("Cargo.lock"));
    let denied = deny.split("\n[bans]").nth(1).expect("deny.toml has bans");
    let denied: Vec<_> =
        denied.split("{ crate = \"").skip(1).filter_map(|it| it.split('"').next()).collect();
    assert_eq!(denied.len(), 2, "{denied:?}");
    for name in denied {
        assert!(!lock.contains(&format!("\nname = \"{name}\"\n")), "{name} is in Cargo.lock");
    }
}
