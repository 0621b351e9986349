//! A page of documentation, as a reader sees it: its blocks of code and of commands, in order, and the answers that it shows.
//!
//! What a page says is tried as it stands: commands go to a real shell. So nothing here knows what `curl` does, and a test that plays
//! a page says only where the page's addresses really are.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::PATIENCE;

/// The blocks of a page.
#[derive(Debug)]
pub struct Page {
    blocks: Vec<Block>,
}

/// What stands between two fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it is: the first word behind the fence.
    pub kind: String,
    /// What else is said behind the fence: the name of a file, say.
    pub about: String,
    /// Its lines, each with its end.
    pub text: String,
    /// Where it begins on the page.
    pub line: usize,
}

impl Page {
    /// The page at this path below the root of the repository.
    pub fn read(path: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let text = fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        Self::of(&text)
    }

    fn of(text: &str) -> Self {
        let (mut blocks, mut open) = (Vec::new(), None::<Block>);
        for (nth, line) in text.lines().enumerate() {
            match (line.strip_prefix("```"), open.as_mut()) {
                (Some(info), None) => open = Some(Block::begin(info, nth + 1)),
                (Some(_), Some(_)) => blocks.extend(open.take()),
                (None, Some(block)) => block.text.extend([line, "\n"]),
                (None, None) => {}
            }
        }
        assert!(open.is_none(), "a block of the page has no end: {open:?}");
        Self { blocks }
    }

    /// All of them, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Each block of commands, with the block behind it.
    pub fn commands(&self) -> impl Iterator<Item = (&Block, Option<&Block>)> {
        let follows = |nth: usize| self.blocks.get(nth + 1);
        let all = self.blocks.iter().enumerate().map(move |(nth, block)| (block, follows(nth)));
        all.filter(|(block, _)| block.kind == "sh")
    }
}

impl Block {
    fn begin(info: &str, line: usize) -> Self {
        let (kind, about) = info.split_once(' ').unwrap_or((info, ""));
        Self { kind: kind.to_owned(), about: about.to_owned(), text: String::new(), line }
    }

    /// Has a shell do what it says, with these replacements, and gives what was printed.
    pub fn run(&self, replacements: &[(&str, &str)]) -> String {
        let script = replacements.iter().fold(self.text.clone(), |text, (this, by)| text.replace(this, by));
        let settings = curl_settings();
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).env("CURL_HOME", settings.path()).stdin(Stdio::null());
        let output = shell.output().unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.stderr.is_empty(), "line {}: {script}\n{}", self.line, said(&output.stderr));
        said(&output.stdout)
    }
}

/// In the place of whatever the one who tests has set for themselves: nobody waits for an answer for ever.
fn curl_settings() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(".curlrc"), format!("max-time = {}\n", PATIENCE.as_secs())).unwrap();
    folder
}

/// A text as it is compared with another: without what is different each time, and without spaces at the ends of lines.
pub fn comparable(text: &str) -> String {
    let lines = text.trim().lines().map(|line| without_times(line.trim_end()));
    lines.collect::<Vec<_>>().join("\n")
}

/// With a word in the place of every time.
fn without_times(line: &str) -> String {
    let parts = line.split_inclusive('"').map(|part| match part.strip_suffix("Z\"") {
        Some(time) if time.len() >= 19 && time.as_bytes()[10] == b'T' => "(a time)\"",
        _ => part,
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_its_blocks_in_order_with_what_is_said_behind_their_fences() {
        let page = Page::of(
            "words\n```rust src/main.rs\nfn main() {}\n```\n\n```sh\nls\n```\n```text\nmain.rs\n```\n",
        );
        let kinds: Vec<_> =
            page.blocks().iter().map(|block| (&*block.kind, &*block.about, block.line)).collect();
        assert_eq!(kinds, [("rust", "src/main.rs", 2), ("sh", "", 6), ("text", "", 9)]);
        let (command, answer) = page.commands().next().unwrap();
        assert_eq!((&*command.text, &*answer.unwrap().text), ("ls\n", "main.rs\n"));
    }

    #[test]
    fn two_texts_that_differ_in_their_times_only_compare_alike() {
        let [one, other] = ["2026-11-15T17:00:00Z", "2030-01-01T00:00:00.000001Z"]
            .map(|time| comparable(&format!("{{\"until\":\"{time}\"}}  \r\n")));
        assert_eq!((&*one, &other), ("{\"until\":\"(a time)\"}", &one));
        assert_eq!(comparable("\"BUZZ\" \"2\"\n"), "\"BUZZ\" \"2\"");
    }
}
