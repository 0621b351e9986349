//! Packages: each crate is private, or has what a registry and its readers need.
//!
//! `cargo package` only warns when a description or a license is missing, and a registry refuses
//! the rest on the day of the publication.

use std::fs;

use tidelock_tidy::{Findings, Source, root, sources};

/// Lines of the manifest of every published crate.
const LINES: &[&str] = &[
    "version.workspace = true",
    "edition.workspace = true",
    "rust-version.workspace = true",
    "license.workspace = true",
    "repository.workspace = true",
    "include.workspace = true",
    "[package.metadata.docs.rs]",
    "all-features = true",
];

/// The texts beside it.
const TEXTS: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// Categories of the registry that fit.
const CATEGORIES: &[&str] = &[
    "asynchronous",
    "command-line-utilities",
    "concurrency",
    "database",
    "database-implementations",
    "development-tools::procedural-macro-helpers",
    "development-tools::testing",
    "web-programming::http-server",
];

const MOST_KEYWORDS: usize = 5;
const LONGEST_KEYWORD: usize = 20;

#[test]
fn every_crate_is_private_or_ready_to_be_published() {
    let mut findings = Findings::default();
    let manifests = manifests();
    let published: Vec<_> = manifests.iter().filter(|manifest| is_published(manifest)).collect();
    assert!(published.len() > 8, "the published crates were not found: {}", published.len());
    for manifest in &published {
        check(manifest, &mut findings);
        check_texts(manifest, &mut findings);
    }
    let workspace = sources("Cargo.toml").into_iter().find(|file| file.path == "Cargo.toml");
    let names: Vec<_> = published.iter().filter_map(|manifest| value(manifest, "name")).collect();
    check_versions(&workspace.expect("the workspace has a manifest"), &names, &mut findings);
    findings.assert_none("Crates that are published say what they are:");
}

#[test]
fn what_a_registry_would_refuse_is_found() {
    let count = |from: &str, to: &str| {
        let manifests = manifests();
        let tower = manifests.iter().find(|file| file.path == "crates/tower/Cargo.toml").unwrap();
        assert!(tower.text.contains(from), "{from:?} is not in the manifest");
        let mut findings = Findings::default();
        check(&Source::new(&tower.path, &tower.text.replacen(from, to, 1)), &mut findings);
        findings.count()
    };
    assert_eq!(count("[package]", "[package]"), 0);
    assert_eq!(count("description = ", "# "), 1);
    assert_eq!(count("repository.workspace = true", ""), 1);
    assert_eq!(count("keywords = [", "keywords = [\"a\", "), 1);
    assert_eq!(count("\"idempotency\"", "\"idempotency-of-requests\""), 1);
    assert_eq!(count("\"asynchronous\"", "\"async\""), 1);
    assert_eq!(count("readme = ", "# "), 1);

    let mut findings = Findings::default();
    let workspace = "tidelock = { version = \"0.1.0\", path = \"crates/tidelock\" }\n\
                     tidelock-http = { path = \"crates/http\" }\n\
                     tidelock-sim = { path = \"crates/sim\" }\n";
    let names = ["tidelock".to_owned(), "tidelock-http".to_owned()];
    check_versions(&Source::new("Cargo.toml", workspace), &names, &mut findings);
    assert_eq!(findings.count(), 1);
}

fn manifests() -> Vec<Source> {
    let crates = sources("/Cargo.toml").into_iter();
    crates.filter(|file| file.path.starts_with("crates/")).collect()
}

fn is_published(manifest: &Source) -> bool {
    !manifest.lines().any(|(_, line)| line == "publish = false")
}

fn check(manifest: &Source, findings: &mut Findings) {
    let mut add = |advice: String| findings.add(&manifest.path, 1, advice);
    for line in LINES.iter().filter(|line| !manifest.lines().any(|(_, has)| has == **line)) {
        add(format!("add {line:?}, or publish = false"));
    }
    let described = manifest.lines().any(|(_, line)| line == "description.workspace = true");
    if !described && value(manifest, "description").is_none_or(|text| text.is_empty()) {
        add("add a description".to_owned());
    }
    if value(manifest, "readme").is_none() {
        add("add a readme".to_owned());
    }
    let keywords = list(manifest, "keywords");
    if keywords.is_empty() || keywords.len() > MOST_KEYWORDS {
        add(format!("name 1 to {MOST_KEYWORDS} keywords, not {}", keywords.len()));
    }
    for keyword in keywords.iter().filter(|word| word.len() > LONGEST_KEYWORD) {
        add(format!("the keyword {keyword:?} has more than {LONGEST_KEYWORD} characters"));
    }
    let categories = list(manifest, "categories");
    if categories.is_empty() {
        add("add categories".to_owned());
    }
    for category in categories.iter().filter(|name| !CATEGORIES.contains(&name.as_str())) {
        add(format!("{category:?} is no category of the registry that is known here"));
    }
}

/// The texts of the licenses and the page of the crate are in its package.
fn check_texts(manifest: &Source, findings: &mut Findings) {
    let folder = root().join(manifest.path.trim_end_matches("Cargo.toml"));
    for text in TEXTS {
        let ours = fs::read_to_string(root().join(text)).expect("the repository has licenses");
        if fs::read_to_string(folder.join(text)).ok() != Some(ours) {
            findings.add(&manifest.path, 1, format!("add a link to {text} beside it"));
        }
    }
    let readme = value(manifest, "readme").unwrap_or_default();
    if !folder.join(&readme).is_file() {
        findings.add(&manifest.path, 1, format!("there is no {readme:?}"));
    }
}

/// A published crate depends on a version; a private one has none, so that it is left out of the
/// packages of those that are tested with it.
fn check_versions(workspace: &Source, published: &[String], findings: &mut Findings) {
    for (number, line) in workspace.lines() {
        let Some((name, dependency)) = line.split_once(" = ") else { continue };
        if !dependency.contains("path = \"crates/") {
            continue;
        }
        let (has, needs) =
            (dependency.contains("version = "), published.contains(&name.to_owned()));
        if has != needs {
            let advice = if needs { "add its version" } else { "it is private: no version" };
            findings.add(&workspace.path, number, format!("{name}: {advice}"));
        }
    }
}

/// The text of a key of the package.
fn value(manifest: &Source, key: &str) -> Option<String> {
    let package = manifest.lines().map(|(_, line)| line).take_while(|line| *line != "[features]");
    let found = package.filter_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).next()?;
    Some(found.trim_matches('"').to_owned())
}

/// The texts of a list on one line.
fn list(manifest: &Source, key: &str) -> Vec<String> {
    let found = value(manifest, key).unwrap_or_default();
    let texts = found.trim_matches(['[', ']']).split(", ");
    texts.map(|text| text.trim_matches('"').to_owned()).filter(|text| !text.is_empty()).collect()
}
