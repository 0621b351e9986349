//! A private browser: Debian's Chromium, headless, behind chromedriver.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Sender};

use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidelock_test_stage::PATIENCE;

/// The prefix of chromedriver's line with its port.
const STARTED: &str = "started successfully on port ";

const FLAGS: [&str; 10] = [
    "--headless=new",
    // Chromium's sandbox does not work for root, which runs the tests on a fresh machine.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
];

/// The driver, and the browser's profile folder. The browser's session must be closed before this
/// is dropped.
#[derive(Debug)]
pub(crate) struct Driver {
    process: Child,
    port: u16,
    profile: TempDir,
}

impl Driver {
    /// Starts the driver.
    pub(crate) fn start() -> Self {
        let mut process = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| {
                panic!(
                    "chromedriver does not start ({e}): install chromium and chromium-driver, as ./test does"
                )
            });
        let port = port_of(process.stdout.take().unwrap());
        Self { process, port, profile: tempfile::tempdir().unwrap() }
    }

    /// Starts a browser.
    pub(crate) async fn browser(&self) -> Client {
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let Value::Object(wanted) = self.wanted() else { unreachable!("it is an object") };
        let address = format!("http://127.0.0.1:{}", self.port);
        let connected =
            tokio::time::timeout(PATIENCE, builder.capabilities(wanted).connect(&address)).await;
        connected
            .unwrap_or_else(|_| {
                panic!("no browser within {PATIENCE:?}: does `chromium --headless=new --no-sandbox` start?")
            })
            .unwrap_or_else(|e| panic!("no browser: {e}"))
    }

    fn wanted(&self) -> Value {
        let profile = format!("--user-data-dir={}", self.profile.path().display());
        let args: Vec<&str> = FLAGS.into_iter().chain([profile.as_str()]).collect();
        json!({ "goog:loggingPrefs": { "browser": "ALL" }, "goog:chromeOptions": { "args": args } })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have exited already.
        let _killed = self.process.kill();
        let _ended = self.process.wait();
    }
}

/// Waits for the line that names the port, and drains the rest so that the driver never blocks on
/// output.
fn port_of(output: ChildStdout) -> u16 {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || read(output, &tell));
    told.recv_timeout(PATIENCE)
        .unwrap_or_else(|e| panic!("chromedriver does not say where it listens: {e}"))
}

fn read(output: ChildStdout, tell: &Sender<u16>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let named = line.split_once(STARTED).map(|(_, rest)| rest.trim_end_matches('.').trim());
        if let Some(port) = named.and_then(|named| named.parse().ok()) {
            // The receiver may have timed out.
            let _ = tell.send(port);
        }
    }
}
