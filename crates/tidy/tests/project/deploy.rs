//! What deploys the command: names only what the command and this repository have.

use std::process::Command;

use tidelock_tidy::sources;

use crate::file;
use crate::yaml::Yaml;

const DOCKERFILE: &str = "deploy/Dockerfile";
const UNIT: &str = "deploy/tidelock.service";

/// The page is compared with the command line by a test of the command.
#[test]
fn every_variable_is_one_of_the_command() {
    let page = file("docs/guides/command.md");
    let mut found = Vec::new();
    for source in sources("").iter().filter(|source| source.path.starts_with("deploy/")) {
        let words = source.text.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        for word in words.filter(|word| word.starts_with("TIDELOCK_")) {
            assert!(page.contains(&format!("`{word}`")), "{}: no variable {word}", source.path);
            found.push(word.to_owned());
        }
    }
    found.sort();
    found.dedup();
    assert!(found.len() >= 6, "{found:?}");
}

#[test]
fn every_command_is_one_of_the_command_line() {
    let page = file("docs/guides/command.md");
    let unit = file(UNIT);
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let image = instructions();
    let (_, entry) = image.iter().find(|(name, _)| name == "ENTRYPOINT").expect("an entry point");
    let (_, begins) = image.iter().find(|(name, _)| name == "CMD").expect("a command");
    assert_eq!(entry, "[\"tidelock\"]");
    let verbs = [
        start.strip_prefix("/usr/local/bin/tidelock "),
        Some(begins.trim_matches(['[', ']', '"'])),
    ];
    for verb in verbs {
        let verb = verb.expect("the place where the guide installs the command");
        assert!(page.contains(&format!("### `{verb}`")), "there is no command {verb:?}");
    }
}

/// The instructions of the Dockerfile, with continued lines joined.
fn instructions() -> Vec<(String, String)> {
    let text = file(DOCKERFILE).replace("\\\n", " ");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let split = |line: &str| {
        let (name, rest) = line.split_once(' ').unwrap_or_else(|| panic!("{line:?} is alone"));
        (name.to_owned(), rest.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    lines.map(split).collect()
}

#[test]
fn the_image_is_built_from_files_that_are_there_and_does_not_run_as_root() {
    const KNOWN: [&str; 14] = [
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "RUN",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ];
    let image = instructions();
    let stages = image.iter().filter(|(name, _)| name == "FROM").count();
    assert_eq!(stages, 2, "what builds is not what runs");
    let ignored = file("deploy/Dockerfile.dockerignore");
    for (name, rest) in &image {
        assert!(KNOWN.contains(&name.as_str()), "unknown instruction {name}");
        if name == "COPY" && !rest.starts_with("--from=") {
            let (source, _) = rest.split_once(' ').expect("a source and a target");
            assert!(tidelock_tidy::root().join(source).exists(), "there is no {source}");
            assert!(!ignored.lines().any(|line| line == source), "{source} is not in the context");
        }
    }
    let user = image.iter().rev().find(|(name, _)| name == "USER").map(|(_, user)| user.as_str());
    let user: u32 = user.expect("a user").parse().expect("a number, so that it can be checked");
    assert!(user >= 1000);
    assert!(image.iter().any(|(name, _)| name == "HEALTHCHECK"));
    let build = image.iter().find(|(name, rest)| name == "RUN" && rest.contains("cargo build"));
    assert!(build.is_some_and(|(_, rest)| rest.contains("--locked")), "{build:?}");
    let manifest = file("Cargo.toml");
    let version =
        manifest.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let rust = format!("rust:{}-", version.expect("the workspace has a rust-version"));
    assert!(image[0].1.starts_with(&rust), "the build does not use {rust}");
}

#[test]
fn the_services_use_what_is_declared_and_the_database_is_not_published() {
    let compose = Yaml::of_file("deploy/compose.yaml");
    let names = |entries: &[(String, Yaml)]| -> Vec<String> {
        entries.iter().map(|(name, _)| name.clone()).collect()
    };
    let services = compose.entries("services");
    for (name, service) in services {
        for kind in ["networks", "secrets"] {
            let declared = names(compose.entries(kind));
            let used = service.at(kind).map_or(&[][..], |_| service.items(kind));
            for item in used {
                let is_declared = declared.iter().any(|name| *item == Yaml::Text(name.clone()));
                assert!(is_declared, "{name}: {kind} {item:?} is not declared");
            }
        }
        if service.at("depends_on").is_some() {
            for (other, condition) in service.entries("depends_on") {
                assert_eq!(condition.text("condition"), "service_healthy");
                let path = format!("services.{other}.healthcheck.test");
                assert!(
                    compose.at(&path).is_some(),
                    "{name} waits for {other}, which has no check"
                );
            }
        }
        match service.at("image") {
            Some(_) => assert!(service.text("image").contains(':'), "{name}: which version?"),
            None => assert_eq!(service.text("build.dockerfile"), DOCKERFILE),
        }
    }
    let database = compose.at("services.database").expect("the database");
    assert_eq!(database.at("ports"), None);
    for volume in database.items("volumes") {
        let Yaml::Text(volume) = volume else { panic!("{volume:?}") };
        let volume = volume.split(':').next().unwrap_or_default();
        assert!(compose.at(&format!("volumes.{volume}")).is_some(), "volume {volume}");
    }
}

#[test]
fn the_unit_is_accepted_by_systemd() {
    let unit = file(UNIT);
    let sections: Vec<_> = unit.lines().filter(|line| line.starts_with('[')).collect();
    assert_eq!(sections, ["[Unit]", "[Service]", "[Install]"]);
    for line in unit.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])) {
        assert!(line.split_once('=').is_some_and(|(key, _)| !key.contains(' ')), "{line:?}");
    }
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("systemd-analyze is not installed: only the form of the unit was checked");
        return;
    }
    // The program is not installed here, and systemd looks for it.
    let unit = unit.replace("/usr/local/bin/tidelock ", "/bin/sh ");
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("units");
    std::fs::create_dir_all(&folder).expect("the folder of temporary files");
    let path = folder.join("tidelock.service");
    std::fs::write(&path, unit).expect("a copy of the unit");
    let verified = Command::new("systemd-analyze").arg("verify").arg(&path).output();
    let verified = verified.expect("systemd-analyze runs");
    let said = String::from_utf8_lossy(&verified.stderr);
    // It also reads the units that this one waits for; what they say is not about this one.
    let about: Vec<_> = said.lines().filter(|line| line.contains("tidelock.service")).collect();
    assert!(about.is_empty(), "{}", about.join("\n"));
}
