//! A page of documentation: its blocks of code and of commands, in order, and the answers that it
//! shows.
//!
//! The tests run a page as it is: see [`Shell`](crate::Shell).

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The blocks of a page.
#[derive(Debug)]
pub struct Page {
    blocks: Vec<Block>,
}

/// A fenced block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its kind: the first word after the fence.
    pub kind: String,
    /// The rest of the info string: for example a file name.
    pub about: String,
    /// Its lines, each with its end.
    pub text: String,
    /// Its first line on the page.
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

    /// All blocks, in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Each block of commands, with the block after it.
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
}

/// A text for comparison: without times and ids, and without trailing spaces.
pub fn comparable(text: &str) -> String {
    let lines = text.trim().lines().map(|line| without_times(line.trim_end()));
    lines.collect::<Vec<_>>().join("\n")
}

/// Replaces every time and every id by a word.
fn without_times(line: &str) -> String {
    let parts = line.split('"').map(|part| match part {
        time if is_time(time) => "(a time)",
        id if is_id(id) => "(an id)",
        other => other,
    });
    parts.collect::<Vec<_>>().join("\"")
}

/// Whether the actual value matches the page: equal except times and ids; `"…"` on a page matches
/// anything.
pub fn alike(shown: &Value, seen: &Value) -> bool {
    match (shown, seen) {
        (Value::String(dots), _) if dots == "…" => true,
        (Value::String(one), Value::String(other)) => without_times(one) == without_times(other),
        (Value::Array(ones), Value::Array(others)) => {
            ones.len() == others.len()
                && ones.iter().zip(others).all(|(one, other)| alike(one, other))
        }
        (Value::Object(ones), Value::Object(others)) => {
            ones.keys().eq(others.keys()) && ones.iter().all(|(key, one)| alike(one, &others[key]))
        }
        (one, other) => one == other,
    }
}

fn is_time(text: &str) -> bool {
    text.len() >= 20 && text.ends_with('Z') && text.as_bytes()[10] == b'T' && text.starts_with("20")
}

fn is_id(text: &str) -> bool {
    let is_grouped = text.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    is_grouped && text.chars().all(|digit| digit == '-' || digit.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[test]
    fn two_values_are_alike_if_they_have_the_same_shape_and_differ_in_times_ids_and_dots_only() {
        let shown = json!({ "id": "0193f1a0-0000-7000-8000-000000000001", "at": "2026-11-15T17:00:00Z", "n": [1, "…"] });
        let seen = json!({ "id": "0193f1a0-ffff-7000-8000-00000000abcd", "at": "2027-01-01T00:00:00.5Z", "n": [1, {}] });
        assert!(alike(&shown, &seen));
        for other in [
            json!({ "at": "now" }),
            json!({ "n": [2, 2] }),
            json!({ "n": [1] }),
            json!({ "more": 1 }),
        ] {
            let mut changed = seen.clone();
            changed.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
            assert!(!alike(&shown, &changed), "{changed}");
        }
    }
}
