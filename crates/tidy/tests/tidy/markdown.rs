//! Line breaks in Markdown: one sentence per line, so that a diff shows the sentence that changed.
//!
//! A line of prose holds no second sentence, and ends where a sentence ends. Code, tables,
//! headings, quotations and what stands in parentheses are exempt.

use tidelock_tidy::{Findings, Source, sources};

#[test]
fn prose_has_one_sentence_per_line() {
    let mut findings = Findings::default();
    sources(".md").iter().for_each(|source| check(source, &mut findings));
    findings.assert_none("Markdown has one sentence per line:");
}

#[test]
fn wrapped_and_joined_sentences_are_found() {
    let count = |text: &str| {
        let mut findings = Findings::default();
        check(&Source::new("a.md", text), &mut findings);
        findings.count()
    };
    assert_eq!(count("It is here. It stays."), 1);
    assert_eq!(count("A sentence that is\nwrapped."), 1);
    assert_eq!(count("- An item that is\n  wrapped."), 1);
    assert_eq!(count("One.\nTwo (see there. And here).\n\n- three\n- four `a. B` e.g. Rust"), 0);
    assert_eq!(count("```\nOne. Two.\nthree\n```\n# A. B\n| A. B |\n"), 0);
}

fn check(source: &Source, findings: &mut Findings) {
    let (mut in_code, mut unfinished) = (false, false);
    for (number, line) in source.lines() {
        let text = line.trim();
        in_code ^= text.starts_with("```") || text.starts_with("~~~");
        if in_code || !is_prose(text) {
            unfinished = false;
            continue;
        }
        if unfinished && !is_item(text) {
            findings.add(
                &source.path,
                number - 1,
                "join the next line: the sentence goes on there",
            );
        }
        let bare = without_code_and_parentheses(text);
        if has_two_sentences(&bare) {
            findings.add(&source.path, number, "begin a new line with each sentence");
        }
        unfinished = !text.trim_end_matches(CLOSING).ends_with(['.', '!', '?', ':', ';', '…']);
    }
}

const CLOSING: [char; 8] = ['"', '\'', '”', ')', '*', '_', '`', ']'];

fn is_prose(text: &str) -> bool {
    let other = ["#", "|", ">", "<", "![", "```", "~~~", "---", "==="];
    let is_definition = text.starts_with('[') && text.contains("]: ");
    !(text.is_empty() || is_definition || other.iter().any(|start| text.starts_with(start)))
}

fn is_item(text: &str) -> bool {
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    ["- ", "* ", "+ "].iter().any(|bullet| text.starts_with(bullet))
        || (number.len() < text.len() && (number.starts_with(". ") || number.starts_with(") ")))
}

fn has_two_sentences(text: &str) -> bool {
    let text = if is_item(text) { text.split_once(' ').map_or("", |(_, rest)| rest) } else { text };
    text.match_indices(". ").any(|(at, _)| {
        let (before, after) = (&text[..at], text[at + 2..].trim_start());
        let abbreviated =
            ["e.g", "i.e", "cf", "vs", "etc", "."].iter().any(|end| before.ends_with(end));
        let ends = before.ends_with(|c: char| c.is_alphanumeric() || CLOSING.contains(&c));
        ends && !abbreviated && after.starts_with(|c: char| c.is_uppercase())
    })
}

/// The text with code spans emptied and parentheses removed.
fn without_code_and_parentheses(text: &str) -> String {
    let (mut bare, mut in_code, mut depth) = (String::new(), false, 0_usize);
    for c in text.chars() {
        match c {
            '`' => in_code = !in_code,
            _ if in_code => continue,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => continue,
            _ => {}
        }
        if depth == 0 && c != ')' {
            bare.push(c);
        }
    }
    bare
}
