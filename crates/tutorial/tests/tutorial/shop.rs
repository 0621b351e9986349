//! The shop, as a separate process.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tidelock_test_stage::PATIENCE;

/// The prefix of its address in the output.
const OPEN: &str = "the shop is open at http://";

/// The process; killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Shop {
    child: Child,
    /// Its address.
    pub(crate) address: String,
}

impl Shop {
    /// Starts the shop on this store, at a free address.
    pub(crate) fn open(store: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command.env("SHOP_STORE", store).env("SHOP_LISTEN", "127.0.0.1:0").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            said.by_ref().find_map(|line| line.unwrap().strip_prefix(OPEN).map(str::to_owned));
        // The rest of its output is read, too, so that it never blocks on a full pipe.
        std::thread::spawn(move || said.for_each(drop));
        Self { child, address: address.expect("a shop that opens says where") }
    }

    /// Sends Ctrl-C, and waits for its end.
    pub(crate) fn close(mut self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).unwrap();
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the shop goes on, though it was told to stop");
            std::thread::yield_now();
        }
    }
}

/// Kills it with SIGKILL, without cleanup.
impl Drop for Shop {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone = self.child.wait();
    }
}
