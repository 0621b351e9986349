//! A shell that runs the commands of a page.
//!
//! A real shell with a real `curl`, so nothing here knows the commands. A test only maps the page's
//! addresses to real ones.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::{Block, PATIENCE};

/// A shell in a temporary folder.
#[derive(Debug)]
pub struct Shell {
    folder: TempDir,
    replacements: Vec<(String, String)>,
    variables: Vec<(String, String)>,
}

impl Shell {
    /// Starts in a temporary folder that is removed with it.
    #[allow(clippy::new_without_default)] // a folder is made
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            replacements: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Replaces a text in all later commands.
    pub fn put(&mut self, this: &str, in_the_place_of: &str) {
        self.replacements.retain(|(that, _)| that != in_the_place_of);
        self.replacements.push((in_the_place_of.to_owned(), this.to_owned()));
    }

    /// Keeps a variable that a block exports.
    pub fn keep(&mut self, variable: &str, block: &Block) {
        let value =
            succeeded(self.command(&format!("{}printf %s \"${variable}\"", block.text), ""), block);
        self.variables.push((variable.to_owned(), value));
    }

    /// Runs a block, and returns its output.
    pub fn run(&self, block: &Block) -> String {
        succeeded(self.command(&block.text, ""), block)
    }

    /// Runs a block with one `curl` request, and returns the status and the body of the answer.
    pub fn ask(&self, block: &Block) -> (u16, String) {
        let printed =
            succeeded(self.command(&block.text, "write-out = \"\\n%{http_code}\"\n"), block);
        let (body, status) = printed.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.to_owned())
    }

    /// Runs a block with one command until it has printed this many lines, and returns them.
    pub fn follow(&self, block: &Block, lines: usize) -> Vec<String> {
        // Without a shell around the command, which would outlive it.
        let mut command = self.command(&format!("exec {}", block.text), "");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        let printed = printed.take(lines).map(Result::unwrap).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        printed
    }

    /// A script, with these settings for `curl` and none of the user's: every request has a
    /// timeout.
    fn command(&self, script: &str, settings: &str) -> Command {
        let settings = format!("max-time = {}\n{settings}", PATIENCE.as_secs());
        fs::write(self.folder.path().join(".curlrc"), settings).unwrap();
        let replaced = self
            .replacements
            .iter()
            .fold(script.to_owned(), |text, (that, by)| text.replace(that, by));
        let mut command = Command::new("sh");
        command.args(["-c", &replaced]).current_dir(self.folder.path()).stdin(Stdio::null());
        command.env("CURL_HOME", self.folder.path()).envs(self.variables.iter().cloned());
        command
    }
}

fn succeeded(mut command: Command, block: &Block) -> String {
    let Output { stdout, stderr, .. } = command.output().unwrap();
    assert!(
        stderr.is_empty(),
        "line {}: {}\n{}",
        block.line,
        block.text,
        String::from_utf8_lossy(&stderr)
    );
    String::from_utf8_lossy(&stdout).into_owned()
}
