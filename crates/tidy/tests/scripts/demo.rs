//! `./demo`: installs a C compiler if there is none, then builds and runs the demo.

use crate::machine::{Machine, Ran};

/// A machine with a Rust toolchain on which the user is root.
fn with_cargo(test: &str) -> Machine {
    Machine::new(test).with("cargo").with_answer("id", "0")
}

fn assert_runs_the_demo(ran: &Ran) {
    assert!(ran.succeeded, "{}", ran.said);
    let root = tidelock_tidy::root();
    let expected = format!(
        "cargo run --profile demo --no-default-features --features sqlite --manifest-path {}/Cargo.toml -- demo --once",
        root.display()
    );
    assert_eq!(ran.calls.last(), Some(&expected), "{}", ran.said);
}

#[test]
fn with_everything_there_it_says_so_and_runs_the_demo() {
    let ran = with_cargo("complete").with("cc").with("apt-get").run("demo", &["--once"]);
    assert_runs_the_demo(&ran);
    assert!(ran.said.contains("Nothing to install: a C compiler is here"), "{}", ran.said);
    assert!(!ran.calls.iter().any(|call| call.starts_with("apt-get")), "{:?}", ran.calls);
}

#[test]
fn without_a_c_compiler_it_installs_one_and_runs_the_demo() {
    let machine = with_cargo("bare").with("apt-get").with("install").with("rm");
    let ran = machine.run("demo", &["--once"]);
    assert_runs_the_demo(&ran);
    assert!(ran.said.contains("Installing the packages gcc libc6-dev"), "{}", ran.said);
    let wanted = "apt-get install -y -qq --no-install-recommends gcc libc6-dev";
    assert!(ran.calls.iter().any(|call| call == wanted), "{:?}", ran.calls);
}

#[test]
fn where_it_cannot_install_it_names_the_packages_and_builds_nothing() {
    for (test, machine) in [
        ("no-apt", with_cargo("no-apt")),
        (
            "no-root",
            Machine::new("no-root").with("cargo").with("apt-get").with_answer("id", "1000"),
        ),
    ] {
        let ran = machine.run("demo", &[]);
        assert!(!ran.succeeded, "{test}: {}", ran.said);
        assert!(ran.said.contains("Missing: gcc libc6-dev"), "{test}: {}", ran.said);
        assert!(!ran.calls.iter().any(|call| call.starts_with("cargo")), "{test}: {:?}", ran.calls);
    }
}

#[test]
fn without_a_rust_toolchain_it_asks_for_one_and_installs_nothing() {
    let ran = Machine::new("no-cargo").with("apt-get").with_answer("id", "0").run("demo", &[]);
    assert!(!ran.succeeded);
    assert!(ran.said.contains("install a Rust toolchain, 1.89 or newer"), "{}", ran.said);
    assert_eq!(ran.calls, [""; 0]);
}

#[test]
fn the_version_it_asks_for_is_the_one_of_the_workspace() {
    let mut manifests = tidelock_tidy::sources("Cargo.toml");
    manifests.retain(|source| source.path == "Cargo.toml");
    let demo = std::fs::read_to_string(tidelock_tidy::root().join("demo")).expect("the script");
    let version =
        manifests[0].text.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let version = version.expect("the workspace has a rust-version");
    assert!(demo.contains(&format!("a Rust toolchain, {version} or newer")), "{version}");
}

#[test]
fn it_is_the_first_command_of_the_readme() {
    let readme =
        std::fs::read_to_string(tidelock_tidy::root().join("README.md")).expect("a README");
    let commands = readme.split("```sh\n").nth(1).expect("a block of commands");
    assert_eq!(commands.split_whitespace().next(), Some("./demo"));
}
