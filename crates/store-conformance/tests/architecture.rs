//! Documentation check: every file that ARCHITECTURE.md names exists.

use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The repository paths that a page names: code spans that begin with `crates/`.
fn named_paths(page: &str) -> Vec<&str> {
    page.split('`').skip(1).step_by(2).filter(|span| span.starts_with("crates/")).collect()
}

/// The file of every step of a walk: the code span that opens a numbered list item.
fn steps(walk: &str) -> Vec<Option<&str>> {
    let items = walk.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    items.map(|item| item.split('`').nth(1)).collect()
}

#[test]
fn every_file_that_the_architecture_names_exists() {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("the page is text");
    let named = named_paths(&page);
    let missing: Vec<_> =
        named.into_iter().filter(|path| !workspace().join(path).exists()).collect();
    assert_eq!(missing, Vec::<&str>::new(), "named and not there");
}

#[test]
fn each_of_the_four_walks_is_an_ordered_list_of_files() {
    let page = fs::read_to_string(workspace().join("ARCHITECTURE.md")).expect("the page is text");
    for title in ["An append", "A reaction event", "An HTTP request", "A step of a run"] {
        let walk = page.split(&format!("### {title}\n")).nth(1).unwrap_or_default();
        let walk = walk.split("\n#").next().unwrap_or_default();
        let steps = steps(walk);
        assert!(steps.len() >= 4, "{title}: a walk of {} steps", steps.len());
        for step in steps {
            let path = step.unwrap_or_else(|| panic!("{title}: a step names no file"));
            assert!(path.starts_with("crates/"), "{title}: `{path}` is not a path");
            assert!(workspace().join(path).is_file(), "{title}: `{path}` is not a file");
        }
    }
}
