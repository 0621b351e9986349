//! Source lint helpers: the repository's files, and a list of findings that fails a test.
//!
//! The rules themselves are in `tests/tidy`, one file per rule. They read text line by line and
//! know no Rust grammar; a rule that would need one belongs in clippy.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

/// A text file of the repository.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path from the repository's root, with forward slashes.
    pub path: String,
    /// The whole text.
    pub text: String,
}

impl Source {
    /// Builds a source that is not on disk, for a rule's own tests.
    pub fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// The lines, numbered from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(at, line)| (at + 1, line))
    }

    /// The lines before the file's test module, numbered from 1.
    pub fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let end = self.text.find("#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        let end = if self.path.contains("/tests/") { 0 } else { end };
        self.text[..end].lines().enumerate().map(|(at, line)| (at + 1, line))
    }

    /// The file's name without its directories.
    pub fn file_name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("the crate is in crates/").to_path_buf()
}

/// Reads the text files that git tracks, or would track, whose paths end with `suffix`.
///
/// Files that are not UTF-8 are left out.
pub fn sources(suffix: &str) -> Vec<Source> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git is installed");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let paths = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    let read = |path: &str| Some(Source::new(path, &fs::read_to_string(root().join(path)).ok()?));
    let found: Vec<_> =
        paths.lines().filter(|path| path.ends_with(suffix)).filter_map(read).collect();
    assert!(!found.is_empty(), "no tracked file ends with {suffix:?}");
    found
}

/// The places that break a rule.
#[derive(Debug, Default)]
pub struct Findings(Vec<String>);

impl Findings {
    /// Adds a place and what to do there.
    pub fn add(&mut self, path: &str, line: usize, advice: impl fmt::Display) {
        self.0.push(format!("{path}:{line}: {advice}"));
    }

    /// The number of places.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Fails the test if there is a finding.
    ///
    /// # Panics
    ///
    /// Panics with one line per finding.
    pub fn assert_none(&self, rule: &str) {
        assert!(self.0.is_empty(), "{rule}\n{}\n", self.0.join("\n"));
    }
}
