//! Traceability check: the promises of docs/guarantees.md and the tests that quote them match.
//!
//! Every number is quoted by a case of the suite, by a test with real processes or a real disk, or,
//! for a pattern's promise, by a test of that pattern. Every quoted number exists, has an anchor,
//! and every required failure schedule has a test that names it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The required failure schedules: all but those of stores that do not exist here.
fn required() -> impl Iterator<Item = u32> {
    (1..=120).filter(|schedule| ![79, 119].contains(schedule))
}

/// The required schedules of the patterns.
fn required_of_patterns() -> impl Iterator<Item = u32> {
    [20, 24]
        .into_iter()
        .chain(27..=33)
        .chain(35..=68)
        .chain(82..=98)
        .chain(100..=104)
        .chain(106..=118)
}

/// The families of promises that the patterns make and their tests check.
const PATTERNS: &[&str] =
    &["CLAIM", "CLOSE", "CMD", "EVT", "HTTP", "QUEUE", "REACT", "RUN", "SCOPE", "TX", "UI"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    fs::read_to_string(workspace().join("docs/guarantees.md")).expect("the page is readable")
}

/// The numbers of docs/guarantees.md: bold words of the form `FAMILY-1`.
fn promised() -> BTreeSet<String> {
    page()
        .split("**")
        .skip(1)
        .step_by(2)
        .filter(|bold| is_promise(bold))
        .map(str::to_owned)
        .collect()
}

fn is_promise(word: &str) -> bool {
    word.split_once('-').is_some_and(|(family, number)| {
        !family.is_empty()
            && family.chars().all(|c| c.is_ascii_uppercase())
            && number.parse::<u32>().is_ok()
    })
}

/// Collects the text of every Rust file below a folder.
fn sources(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("the crates can be read") {
        let path = entry.expect("the crates can be read").path();
        if path.is_dir() {
            sources(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            text.push_str(&fs::read_to_string(&path).expect("sources are text"));
        }
    }
}

/// Every doc comment line below the crates.
fn doc_lines() -> Vec<String> {
    doc_lines_below("crates")
}

/// Every doc comment line of the patterns' tests.
fn pattern_lines() -> Vec<String> {
    let mut lines = doc_lines_below("crates/tidelock/tests");
    lines.extend(doc_lines_below("crates/tower/tests"));
    lines.extend(doc_lines_below("crates/sqlx/tests"));
    lines.extend(doc_lines_below("crates/http"));
    lines.extend(doc_lines_below("crates/cli/tests"));
    lines.extend(doc_lines_below("crates/cli/src"));
    lines
}

fn doc_lines_below(folder: &str) -> Vec<String> {
    let mut text = String::new();
    sources(&workspace().join(folder), &mut text);
    let docs = text
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("///") || line.starts_with("//!"));
    docs.map(str::to_owned).collect()
}

fn quoted_by_cases() -> BTreeSet<String> {
    let cases = tidelock_store_conformance::promises();
    cases.iter().flat_map(|(_, promises)| promises.split(' ')).map(str::to_owned).collect()
}

fn words(lines: &[String]) -> BTreeSet<&str> {
    lines.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '-')).collect()
}

fn is_of_a_pattern(promise: &str) -> bool {
    promise.split_once('-').is_some_and(|(family, _)| PATTERNS.contains(&family))
}

/// The schedules that the lines name: the numbers listed directly after the word, and no number
/// later in the line.
fn schedules(lines: &[String]) -> BTreeSet<u32> {
    lines.iter().flat_map(|line| line.split("chedule").skip(1)).flat_map(listed_numbers).collect()
}

/// Parses the numbers of ` 7`, `s 1, 2 and 4` and `s 71 to 73`, up to the first other word.
fn listed_numbers(rest: &str) -> Vec<u32> {
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    let mut numbers: Vec<u32> = Vec::new();
    let mut is_range = false;
    for word in rest.split_whitespace() {
        let number = word.trim_end_matches([',', '.', ';', ':', ')']);
        match (word, number.parse::<u32>()) {
            ("and", _) => continue,
            ("to", _) => {
                is_range = true;
                continue;
            }
            (_, Ok(number)) => {
                let first = numbers.last().filter(|_| is_range).map_or(number, |last| last + 1);
                numbers.extend(first..=number);
            }
            _ => break,
        }
        is_range = false;
        if !word.ends_with(',') && number != word {
            break;
        }
    }
    numbers
}

#[test]
fn only_numbers_listed_after_the_word_are_schedules() {
    for (line, expected) in [
        ("/// Schedule 7.", &[7][..]),
        ("/// CLAIM-42. Schedule 58.", &[58]),
        ("/// Schedule 58. CLAIM-42.", &[58]),
        ("/// Schedule 58; CLAIM-42 and 43.", &[58]),
        ("/// Schedule 58: within 42 seconds.", &[58]),
        ("/// Schedule 58 with 42 of them.", &[58]),
        ("/// Schedules 1, 2 and 4: all of them (schedule 9).", &[1, 2, 4, 9]),
        ("/// In the schedules 71 to 73.", &[71, 72, 73]),
        ("/// A schedule that is due in 42 seconds.", &[]),
        ("/// The schedule of CLAIM-42.", &[]),
    ] {
        let named: Vec<_> = schedules(&[line.to_owned()]).into_iter().collect();
        assert_eq!(named, expected, "{line}");
    }
}

#[test]
fn promises_of_the_patterns_and_quotes_in_their_tests_match() {
    let lines = pattern_lines();
    let words = words(&lines);
    let quoted: BTreeSet<String> = words
        .iter()
        .filter(|w| is_promise(w) && is_of_a_pattern(w))
        .map(|w| (*w).to_owned())
        .collect();
    let promised: BTreeSet<String> =
        promised().into_iter().filter(|p| is_of_a_pattern(p)).collect();
    assert!(!promised.is_empty(), "the page has promises of the patterns");
    assert_eq!(quoted, promised);
    let named = schedules(&lines);
    let missing: Vec<_> =
        required_of_patterns().filter(|schedule| !named.contains(schedule)).collect();
    assert_eq!(missing, Vec::<u32>::new(), "required and not tested");
}

#[test]
fn every_promise_is_quoted_by_a_test() {
    let (cases, docs) = (quoted_by_cases(), doc_lines());
    let words = words(&docs);
    let in_docs = |promise: &String| words.contains(promise.as_str());
    let unquoted: Vec<_> = promised()
        .into_iter()
        .filter(|promise| !cases.contains(promise) && !in_docs(promise))
        .collect();
    assert_eq!(unquoted, Vec::<String>::new(), "promised and not tested");
}

#[test]
fn every_promise_that_a_case_quotes_exists() {
    let invented: Vec<_> = quoted_by_cases().difference(&promised()).cloned().collect();
    assert_eq!(invented, Vec::<String>::new(), "tested and not promised");
}

#[test]
fn every_required_schedule_has_a_test_that_names_it() {
    let named = schedules(&doc_lines());
    let missing: Vec<_> = required().filter(|schedule| !named.contains(schedule)).collect();
    assert_eq!(missing, Vec::<u32>::new(), "required and not tested");
}

/// The anchors of a page: the ids of its `<a id="..">` elements.
fn anchors(page: &str) -> Vec<&str> {
    page.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// The targets of links to numbers in a text: `evt-3` of `](#evt-3)`, with or without a file before
/// the `#`.
fn linked_numbers(text: &str) -> Vec<&str> {
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let fragments = links.filter_map(|link| {
        let (file, fragment) = link.split_once('#')?;
        (file.is_empty() || file.ends_with("guarantees.md")).then_some(fragment)
    });
    fragments.filter(|fragment| is_promise(&fragment.to_uppercase())).collect()
}

/// Collects the text of every Markdown file below a folder.
fn pages(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            pages(&path, text);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            text.push_str(&fs::read_to_string(&path).expect("pages are text"));
        }
    }
}

#[test]
fn every_promise_has_one_anchor_in_front_of_its_number() {
    let page = page();
    let promised = promised();
    let missing: Vec<_> = promised
        .iter()
        .filter(|promise| {
            let anchor = promise.to_lowercase();
            !page.contains(&format!("\n- <a id=\"{anchor}\"></a>**{promise}** "))
        })
        .collect();
    assert_eq!(missing, Vec::<&String>::new(), "promises without an anchor");
    assert_eq!(anchors(&page).len(), promised.len(), "an anchor is there twice, or has no promise");
}

#[test]
fn every_link_to_a_promise_has_an_anchor() {
    let mut text = String::new();
    pages(&workspace().join("docs"), &mut text);
    for root in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        text.push_str(&fs::read_to_string(workspace().join(root)).expect("pages are text"));
    }
    let page = page();
    let anchors = anchors(&page);
    let linked = linked_numbers(&text);
    assert!(!linked.is_empty(), "the summary links to promises");
    let dead: Vec<_> = linked.into_iter().filter(|link| !anchors.contains(link)).collect();
    assert_eq!(dead, Vec::<&str>::new(), "links without an anchor");
}
