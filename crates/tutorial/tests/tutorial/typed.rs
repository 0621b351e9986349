//! The code of the page, put together, equals this program to the letter.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tidelock_test_stage::{Block, Page};

/// Files by their names.
type Files = BTreeMap<String, String>;

#[test]
fn the_code_of_the_page_is_this_program() {
    let mut typed = Files::new();
    for block in Page::read("docs/tutorial.md").blocks() {
        match (&*block.kind, &*block.about) {
            ("rust", file) => begin(&mut typed, file, block),
            ("diff", file) => {
                change(typed.get_mut(file).expect("a file is there before it is changed"), block)
            }
            _ => {}
        }
    }
    let ours = ours();
    assert_eq!(typed.keys().collect::<Vec<_>>(), ours.keys().collect::<Vec<_>>());
    for (name, text) in ours {
        assert_eq!(typed[&name], text, "{name}");
    }
}

#[test]
fn every_dependency_of_the_program_is_added_on_the_page() {
    let page = Page::read("docs/tutorial.md");
    let added = page
        .commands()
        .flat_map(|(block, _)| block.text.lines())
        .filter_map(|line| line.strip_prefix("cargo add "));
    let added: Vec<&str> = added.flat_map(str::split_whitespace).collect();
    let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
    let dependencies =
        manifest.split("\n[").find_map(|part| part.strip_prefix("dependencies]\n")).unwrap();
    for line in dependencies.lines().filter(|line| !line.is_empty()) {
        let name = line.split(['.', ' ']).next().unwrap();
        assert!(added.contains(&name), "{name} is not added: {added:?}");
    }
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The program as it is built.
fn ours() -> Files {
    let entries = fs::read_dir(folder().join("src")).unwrap().map(|entry| entry.unwrap().path());
    let named = |path: &Path| format!("src/{}", path.file_name().unwrap().to_str().unwrap());
    entries.map(|path| (named(&path), fs::read_to_string(&path).unwrap())).collect()
}

fn begin(typed: &mut Files, file: &str, block: &Block) {
    let before = typed.insert(file.to_owned(), block.text.clone());
    assert!(before.is_none(), "line {}: {file} is there already", block.line);
}

/// Applies a diff block: removes lines with a minus and adds lines with a plus, where the context
/// lines match.
fn change(text: &mut String, block: &Block) {
    for hunk in block.text.split("@@\n") {
        let side = |other: char| -> String {
            let lines = hunk.lines().filter(|line| !line.starts_with(other));
            lines.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect()
        };
        let (before, after) = (side('+'), side('-'));
        let found = text.matches(&before).count();
        assert_eq!(
            found, 1,
            "line {}: this is to be found once, and is found {found} times:\n{before}",
            block.line
        );
        *text = text.replacen(&before, &after, 1);
    }
}
