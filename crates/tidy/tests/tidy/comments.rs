//! Width: a Rust comment line has at most 100 columns.
//!
//! rustfmt does not wrap comments. Code in a doc comment, tables and lines with a URL are exempt,
//! because they cannot be wrapped.

use tidelock_tidy::{Findings, Source, sources};

const WIDTH: usize = 100;

#[test]
fn comment_lines_fit_in_100_columns() {
    let mut findings = Findings::default();
    sources(".rs").iter().for_each(|source| check(source, &mut findings));
    findings.assert_none("Comments wrap at 100 columns:");
}

#[test]
fn code_tables_and_urls_are_exempt_and_prose_is_not() {
    let long = "x ".repeat(60);
    let count = |text: &str| {
        let mut findings = Findings::default();
        check(&Source::new("a.rs", text), &mut findings);
        findings.count()
    };
    assert_eq!(count(&format!("/// {long}\n    // {long}\n//! {long}")), 3);
    assert_eq!(
        count(&format!("/// ```\n/// {long}\n/// ```\n/// | {long}\n// http://a/ {long}")),
        0
    );
    assert_eq!(count(&format!("/// ```\nfn a() {{}}\n/// {long}")), 1);
    assert_eq!(count(&format!("let a = \"{long}\";")), 0);
}

fn check(source: &Source, findings: &mut Findings) {
    let mut in_code = false;
    for (number, line) in source.lines() {
        let Some(body) = comment(line) else {
            in_code = false;
            continue;
        };
        if body.starts_with("```") {
            in_code = !in_code;
        }
        let exempt = in_code || body.starts_with(['|', '[']) || body.contains("://");
        let width = line.chars().count();
        if width > WIDTH && !exempt {
            findings.add(&source.path, number, format!("{width} columns; wrap the comment"));
        }
    }
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let body = line.trim_start().strip_prefix("//")?;
    Some(body.trim_start_matches(['/', '!']).trim_start())
}
