//! No file around the code names a host: an address that does not exist, or not yet, misleads.

use tidelock_tidy::{Findings, Source, sources};

/// The files and folders that this is about.
const AROUND: [&str; 8] = [
    ".github/",
    "deploy/",
    "scripts/",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "STABILITY.md",
    "demo",
    "deny.toml",
];
/// Names that mean this machine or a service of compose.yaml, or that are reserved for examples.
const NO_HOSTS: [&str; 6] = ["localhost", "127.0.0.1", "0.0.0.0", "db.example", "database", "…"];
/// How names of hosts end, of those that projects like this one use.
const ENDS: [&str; 9] = [".com", ".org", ".net", ".io", ".dev", ".rs", ".sh", ".app", ".cloud"];

#[test]
fn the_files_around_the_code_name_no_host() {
    let mut findings = Findings::default();
    let all = sources("");
    let around = all.iter().filter(|source| AROUND.iter().any(|it| source.path.starts_with(it)));
    let count = around.inspect(|source| check(source, &mut findings)).count();
    assert!(count >= 8, "only {count} files were found");
    findings.assert_none("These files name no host:");
}

#[test]
fn a_host_is_found_in_an_address_a_mail_and_alone() {
    let count = |text: &str| {
        let mut findings = Findings::default();
        check(&Source::new("SECURITY.md", text), &mut findings);
        findings.count()
    };
    assert_eq!(
        count("see https://tidelock.example/a\nmail a@tidelock.org\non tidelock.io, and"),
        3
    );
    assert_eq!(
        count("http://localhost:7171/ready postgres://shop@db.example/shop v1.2 main.rs"),
        0
    );
}

fn check(source: &Source, findings: &mut Findings) {
    for (number, line) in source.lines() {
        let words = line.split(|c: char| c.is_whitespace() || "\"'`()<>,;".contains(c));
        for word in words.filter(|word| names_a_host(word)) {
            findings.add(&source.path, number, format!("{word:?} names a host"));
        }
    }
}

fn names_a_host(word: &str) -> bool {
    let address = word.split_once("://").map(|(_, rest)| rest);
    let host = address.or(word.contains('@').then_some(word)).unwrap_or(word);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split(['/', ':', '?']).next().unwrap_or_default().trim_end_matches('.');
    let is_file = address.is_none() && !word.contains('@') && host.ends_with(".rs");
    let is_named = address.is_some() || ENDS.iter().any(|end| host.ends_with(end));
    is_named && !is_file && !host.is_empty() && !NO_HOSTS.contains(&host) && !host.starts_with('$')
}
