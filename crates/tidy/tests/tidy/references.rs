//! Document references: a Markdown file that a comment or a page names exists.
//!
//! Links of Markdown pages are resolved from the page. A bare `….md` in prose or in a Rust comment
//! is resolved from the file that names it or from the repository's root.

use std::path::Path;

use tidelock_tidy::{Findings, Source, root, sources};

#[test]
fn every_document_that_is_referred_to_exists() {
    let mut findings = Findings::default();
    for source in sources(".md").iter().chain(&sources(".rs")) {
        check(source, &mut findings);
    }
    findings.assert_none("References name documents of this repository:");
}

#[test]
fn a_dead_link_and_a_dead_path_are_found() {
    let count = |path: &str, text: &str| {
        let mut findings = Findings::default();
        check(&Source::new(path, text), &mut findings);
        findings.count()
    };
    assert_eq!(count("docs/a.md", "[a](../README.md#b) [b](guarantees.md) `docs/README.md`"), 0);
    assert_eq!(count("docs/a.md", "[a](README.txt) [b](gone/) [c](https://a.b/c.md)"), 2);
    assert_eq!(count("crates/store/src/a.rs", "//! See docs/gone.md.\n//! And PLAN.md"), 2);
    assert_eq!(count("crates/store/src/a.rs", "//! See docs/guarantees.md.\nopen(\"a.md\")"), 0);
}

fn check(source: &Source, findings: &mut Findings) {
    let is_page = source.path.ends_with(".md");
    let mut in_code = false;
    for (number, line) in source.lines() {
        in_code ^= is_page && line.trim_start().starts_with("```");
        if in_code || !(is_page || line.trim_start().starts_with("//")) {
            continue;
        }
        let links = if is_page { links(line) } else { Vec::new() };
        for target in links.iter().filter(|target| !exists_beside(source, target)) {
            findings.add(
                &source.path,
                number,
                format!("the link {target:?} leads nowhere; fix it"),
            );
        }
        let bare = paths(line).filter(|path| !links.iter().any(|link| link.contains(path)));
        for path in bare.filter(|path| !exists_beside(source, path) && !root().join(path).exists())
        {
            findings.add(
                &source.path,
                number,
                format!("there is no document {path:?}; fix the path"),
            );
        }
    }
}

/// The relative targets of a line's Markdown links, without their anchors.
fn links(line: &str) -> Vec<&str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let targets = targets.filter(|target| !target.contains(':'));
    targets.filter_map(|target| target.split('#').next()).filter(|path| !path.is_empty()).collect()
}

/// The paths of a line that end with `.md`.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || "_./-:*".contains(c)));
    let words = words.map(|word| word.trim_end_matches(['.', ':', ',']));
    words.filter(|word| word.len() > 3 && word.ends_with(".md") && !word.contains([':', '*']))
}

fn exists_beside(source: &Source, target: &str) -> bool {
    let directory = root().join(Path::new(&source.path).parent().unwrap_or(Path::new("")));
    directory.join(target).exists()
}
