//! The server as an image or a unit starts it: set by variables, asked by the check of its health.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::harness::{bare, said};

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");

/// A server with the variables of the image, and the address that it says.
fn start(folder: &std::path::Path) -> (Child, String) {
    let image = std::fs::read_to_string(format!("{DEPLOY}/Dockerfile")).unwrap();
    let tokens = folder.join("tokens");
    std::fs::write(&tokens, "operator ada e5309ab1c6f74d2a9f18\n").unwrap();
    let mut server = bare(&["serve"]);
    let variables = image.lines().filter_map(|line| line.strip_prefix("ENV ")?.split_once('='));
    let mut count = 0;
    for (name, value) in variables {
        // A folder and a port that are free here.
        let value = value.replace("/var/lib/tidelock", folder.to_str().unwrap());
        server.env(name, value.replace(":7171", ":0"));
        count += 1;
    }
    assert!(count >= 2, "the image sets a store and an address");
    server.env("TIDELOCK_SERVE_MIGRATE", "true").env("TIDELOCK_SERVE_TOKENS", tokens);
    let mut server = server.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(server.stderr.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.starts_with("serving sqlite:"), "{first}");
    let address = first.rsplit("://").next().unwrap();
    (server, address.split([',', '\n']).next().unwrap().to_owned())
}

fn healthy(address: &str) -> Output {
    let mut check = Command::new(format!("{DEPLOY}/healthy"));
    check.env("TIDELOCK_SERVE_LISTEN", address).output().unwrap()
}

/// CMD-13, HTTP-16.
#[test]
fn a_server_in_an_image_is_healthy_until_it_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let (mut server, address) = start(folder.path());
    let check = healthy(&address);
    let id = Pid::from_raw(server.id().try_into().unwrap());
    kill(id, Signal::SIGTERM).unwrap();
    let ended = server.wait().unwrap();
    assert!(check.status.success(), "{address}: {check:?}");
    assert_eq!(ended.code(), Some(0), "the image stops it with SIGTERM");
    assert!(!healthy(&address).status.success(), "nothing answers any more");
    assert!(folder.path().join("tidelock.db").exists());
}

/// HTTP-6. An image that is started without tokens does not open its port to everyone.
#[test]
fn without_tokens_an_image_refuses_to_start_with_the_code_that_ends_its_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = bare(&["serve"]);
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    server.env("TIDELOCK_STORE", url).env("TIDELOCK_SERVE_LISTEN", "0.0.0.0:0");
    let refused = said(server);
    let unit = std::fs::read_to_string(format!("{DEPLOY}/tidelock.service")).unwrap();
    let code = unit.lines().find_map(|line| line.strip_prefix("RestartPreventExitStatus="));
    assert_eq!(Some(refused.code.to_string().as_str()), code, "{refused:?}");
}
