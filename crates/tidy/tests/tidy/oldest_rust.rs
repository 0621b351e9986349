//! The oldest Rust: what the published crates depend on asks for no newer one than they do.
//!
//! A dependency that is updated may ask for a newer Rust, and with the Rust at hand it compiles all
//! the same. What our own code uses of the standard library is checked by clippy, which knows since
//! when each item is stable.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;
use tidelock_tidy::root;

#[test]
fn no_dependency_of_a_published_crate_needs_a_newer_rust() {
    let metadata = metadata();
    let ours = packages(&metadata).find(|package| package["name"] == "tidelock");
    let oldest = ours.and_then(|package| package["rust_version"].as_str());
    let oldest = version(oldest.expect("tidelock says which Rust it needs"));
    let (checked, newer) = newer_than(oldest, &metadata);
    assert!(checked > 100, "the dependencies were not found: {checked}");
    assert_eq!(newer, Vec::<String>::new(), "these need a Rust newer than {oldest:?}");
}

#[test]
fn a_dependency_that_needs_a_newer_rust_is_found() {
    let package = |id: &str, oldest: &str, published: Value| {
        serde_json::json!({
            "id": id, "name": id, "version": "1.0.0", "rust_version": oldest,
            "publish": published, "source": if id.starts_with('t') { Value::Null } else { "r".into() },
        })
    };
    let node = |id: &str, deps: &[(&str, Option<&str>)]| {
        let kinds = |kind: &Option<&str>| serde_json::json!([{ "kind": kind }]);
        let deps = deps
            .iter()
            .map(|(id, kind)| serde_json::json!({ "pkg": id, "dep_kinds": kinds(kind) }));
        serde_json::json!({ "id": id, "deps": deps.collect::<Vec<_>>() })
    };
    let metadata = serde_json::json!({
        "packages": [
            package("tidelock", "1.89", Value::Null),
            package("tests", "1.89", serde_json::json!([])),
            package("old", "1.60.2", Value::Null),
            package("new", "1.90", Value::Null),
            package("newest", "2.0", Value::Null),
        ],
        "resolve": { "nodes": [
            node("tidelock", &[("old", None), ("newest", Some("dev"))]),
            node("tests", &[("newest", None)]),
            node("old", &[("new", Some("build"))]),
            node("new", &[]),
            node("newest", &[]),
        ] },
    });
    assert_eq!(
        newer_than(version("1.89"), &metadata),
        (3, vec!["new 1.0.0: Rust 1.90".to_owned()])
    );
    assert_eq!(newer_than(version("1.90.0"), &metadata).1, Vec::<String>::new());
}

/// What the lock file says, for this platform.
fn metadata() -> Value {
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).current_dir(root()).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program} {arguments:?}: {said}");
        String::from_utf8(output.stdout).expect("it is UTF-8")
    };
    let told = run("rustc", &["-vV"]);
    let host = told.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc has a host");
    // With the features that the tests are compiled with: what belongs to others is not here.
    let features = "tidelock-http/otel,tidelock-cli/otel";
    let platform = ["--filter-platform", host, "--features", features];
    let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let text = run(env!("CARGO"), &[&arguments[..], &platform].concat());
    serde_json::from_str(&text).expect("cargo writes JSON")
}

/// How many packages are built into the published crates, and those that need a newer Rust.
fn newer_than(oldest: (u64, u64), metadata: &Value) -> (usize, Vec<String>) {
    let is_published =
        |package: &&Value| package["source"].is_null() && package["publish"].is_null();
    let mut open: Vec<&str> = packages(metadata).filter(is_published).filter_map(id).collect();
    let mut used = BTreeSet::new();
    while let Some(next) = open.pop() {
        if used.insert(next) {
            open.extend(dependencies(metadata, next));
        }
    }
    let needs = |package: &Value| {
        let needed = package["rust_version"].as_str().filter(|needed| version(needed) > oldest)?;
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        Some(format!("{} {}: Rust {needed}", text("name"), text("version")))
    };
    let built =
        packages(metadata).filter(|package| id(package).is_some_and(|id| used.contains(id)));
    (used.len(), built.filter_map(needs).collect())
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

fn id(package: &Value) -> Option<&str> {
    package["id"].as_str()
}

/// What is compiled for a package, apart from its tests.
fn dependencies<'a>(metadata: &'a Value, of: &str) -> impl Iterator<Item = &'a str> {
    let nodes = metadata["resolve"]["nodes"].as_array().into_iter().flatten();
    let node = nodes.filter(move |node| node["id"] == of).take(1);
    let all = node.flat_map(|node| node["deps"].as_array().into_iter().flatten());
    let is_built = |dep: &&Value| {
        let mut kinds = dep["dep_kinds"].as_array().into_iter().flatten();
        kinds.any(|kind| kind["kind"] != "dev")
    };
    all.filter(is_built).filter_map(|dep| dep["pkg"].as_str())
}

/// The major and the minor number.
fn version(text: &str) -> (u64, u64) {
    let mut numbers = text.split('.').map(|number| number.parse().expect("a version has numbers"));
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default())
}
