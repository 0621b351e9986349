//! Word list: words that name a person where a thing acts, and archaic turns.
//!
//! Write the noun instead ("the holder", "another process", "again", "indefinitely"). The words are
//! also found inside identifiers such as test names. Migrations are exempt: their checksums are
//! part of every store.

use std::collections::BTreeMap;

use tidelock_tidy::{Source, sources};

const WORDS: &[&[&str]] = &[
    &["whoever"],
    &["somebody"],
    &["nobody"],
    &["anybody"],
    &["everybody"],
    &["anew"],
    &["for", "ever"],
    &["of", "one", "s", "own"],
    &["in", "vain"],
];

/// How many occurrences each area may have; an area that is not listed has none.
const ALLOWED: &[(&str, usize)] = &[
    // Comments in a dump of an old schema.
    ("crates/test-stage", 2),
];

#[test]
fn no_area_has_more_of_the_listed_words_than_before() {
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for source in sources("") {
        let Some(area) = area(&source.path) else { continue };
        found.entry(area).or_default().extend(occurrences(&source));
    }
    let over: Vec<_> = found.iter().filter_map(|(area, places)| excess(area, places)).collect();
    assert!(
        over.is_empty(),
        "Plain technical English has things as subjects:\n{}",
        over.join("\n")
    );
}

#[test]
fn words_are_found_in_prose_in_identifiers_and_across_line_breaks() {
    let count = |text: &str| occurrences(&Source::new("a.rs", text)).len();
    assert_eq!(count("Whoever waits, fn that_nobody_uses() {}, somebody's"), 3);
    assert_eq!(count("/// a queue of one's own\n/// waits for\n/// ever, in vain"), 3);
    assert_eq!(count("renewed, forever, invain, for every one of his own"), 0);
}

fn excess(area: &str, places: &[String]) -> Option<String> {
    let allowed = ALLOWED.iter().find(|(name, _)| *name == area).map_or(0, |(_, allowed)| *allowed);
    (places.len() > allowed).then(|| {
        let (count, places) = (places.len(), places.join("\n  "));
        format!("{area}: {count} occurrences, {allowed} allowed. Reword the new one of these:\n  {places}")
    })
}

/// The crate that a file belongs to, or `docs`.
fn area(path: &str) -> Option<String> {
    let exempt = path.contains("/migrations/") || path.starts_with("crates/tidy/");
    let mut parts = path.split('/');
    match (parts.next()?, parts.next()?) {
        _ if exempt => None,
        ("crates", name) => Some(format!("crates/{name}")),
        ("docs", _) => Some("docs".to_owned()),
        _ => None,
    }
}

fn occurrences(source: &Source) -> Vec<String> {
    let tokens: Vec<_> = source.lines().flat_map(|(number, line)| tokens(number, line)).collect();
    let mut places = Vec::new();
    for at in 0..tokens.len() {
        for word in WORDS {
            let here = tokens[at..].iter().map(|(_, token)| token.as_str()).take(word.len());
            if here.eq(word.iter().copied()) {
                places.push(format!("{}:{}: {:?}", source.path, tokens[at].0, word.join(" ")));
            }
        }
    }
    places
}

fn tokens(number: usize, line: &str) -> impl Iterator<Item = (usize, String)> {
    let parts = line.split(|c: char| !c.is_alphabetic()).filter(|part| !part.is_empty());
    parts.map(move |part| (number, part.to_lowercase()))
}
