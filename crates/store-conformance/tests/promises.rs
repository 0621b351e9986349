//! Traceability: the promises and the tests are the same list.
//!
//! Every number of docs/guarantees.md is quoted by a case of the suite, by a test with real
//! processes or a real disk, or, if it is a pattern's, by a test of that pattern. Every number that
//! is quoted exists, and every required failure schedule has a test that names it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The required failure schedules: all but those that belong to stores which are not here.
fn owed() -> impl Iterator<Item = u32> {
    (1..=120).filter(|schedule| ![79, 119].contains(schedule))
}

/// Those of them that belong to the patterns.
fn owed_by_patterns() -> impl Iterator<Item = u32> {
    [20, 24]
        .into_iter()
        .chain(27..=33)
        .chain(35..=68)
        .chain(82..=98)
        .chain(100..=104)
        .chain(106..=118)
}

/// The families of promises that are kept by patterns, and so are tested where the patterns are.
const PATTERNS: &[&str] =
    &["CLAIM", "CLOSE", "CMD", "EVT", "HTTP", "QUEUE", "REACT", "RUN", "SCOPE"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The promises of docs/guarantees.md: what stands there in bold with a dash and a number.
fn promised() -> BTreeSet<String> {
    let page =
        fs::read_to_string(workspace().join("docs/guarantees.md")).expect("the page is there");
    page.split("**").skip(1).step_by(2).filter(|bold| is_promise(bold)).map(str::to_owned).collect()
}

fn is_promise(word: &str) -> bool {
    word.split_once('-').is_some_and(|(family, number)| {
        !family.is_empty()
            && family.chars().all(|c| c.is_ascii_uppercase())
            && number.parse::<u32>().is_ok()
    })
}

/// All Rust text below the crates.
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

/// Every line of documentation below the crates.
fn doc_lines() -> Vec<String> {
    doc_lines_below("crates")
}

/// Every line of documentation of the patterns' tests.
fn pattern_lines() -> Vec<String> {
    let mut lines = doc_lines_below("crates/tidelock/tests");
    lines.extend(doc_lines_below("crates/tower/tests"));
    lines.extend(doc_lines_below("crates/http"));
    lines.extend(doc_lines_below("crates/cli/tests"));
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

/// The schedules that are named: the numbers listed after the word, and no number later in the
/// line.
fn schedules(lines: &[String]) -> BTreeSet<u32> {
    lines.iter().flat_map(|line| line.split("chedule").skip(1)).flat_map(counted_up).collect()
}

/// The numbers of ` 7`, `s 1, 2 and 4` and `s 71 to 73`, up to anything else.
fn counted_up(rest: &str) -> Vec<u32> {
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
fn a_number_is_a_schedule_only_if_it_is_named_as_one() {
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
fn every_promise_of_a_pattern_is_quoted_by_one_of_its_tests_and_the_other_way_round() {
    let lines = pattern_lines();
    let words = words(&lines);
    let quoted: BTreeSet<String> = words
        .iter()
        .filter(|w| is_promise(w) && is_of_a_pattern(w))
        .map(|w| (*w).to_owned())
        .collect();
    let promised: BTreeSet<String> =
        promised().into_iter().filter(|p| is_of_a_pattern(p)).collect();
    assert!(!promised.is_empty(), "the patterns promise something");
    assert_eq!(quoted, promised);
    let named = schedules(&lines);
    let missing: Vec<_> = owed_by_patterns().filter(|schedule| !named.contains(schedule)).collect();
    assert_eq!(missing, Vec::<u32>::new(), "owed and not tested");
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
fn every_schedule_that_is_owed_has_a_test_that_names_it() {
    let named = schedules(&doc_lines());
    let missing: Vec<_> = owed().filter(|schedule| !named.contains(schedule)).collect();
    assert_eq!(missing, Vec::<u32>::new(), "owed and not tested");
}
