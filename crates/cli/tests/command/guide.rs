//! The operators' guide is complete.

use std::fs;
use std::path::Path;

use tidelock::doctor::FindingKind;

use crate::harness::{bare, said};

fn guide() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/operating.md");
    fs::read_to_string(path).unwrap()
}

/// The commands, as listed by the help.
fn commands() -> Vec<String> {
    let help = said(bare(&["--help"])).out;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next());
    listed.filter(|command| *command != "help").map(str::to_owned).collect()
}

/// CMD-5.
#[test]
fn every_kind_of_finding_is_explained() {
    let guide = guide();
    let told: Vec<_> =
        guide.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    assert_eq!(told, FindingKind::ALL.iter().map(|kind| kind.as_str()).collect::<Vec<_>>());
}

#[test]
fn every_command_is_mentioned() {
    let (guide, commands) = (guide(), commands());
    assert!(commands.len() > 20, "{commands:?}");
    let named = |command: &String| {
        ["`", "`tidelock "].iter().any(|before| {
            [" ", "`"].iter().any(|after| guide.contains(&format!("{before}{command}{after}")))
        }) || guide.contains(&format!("\ntidelock {command} "))
    };
    let untold: Vec<_> = commands.iter().filter(|command| !named(command)).collect();
    assert_eq!(untold, Vec::<&String>::new());
}
