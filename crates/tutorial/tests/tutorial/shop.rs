//! The shop, as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tidelock_test_stage::PATIENCE;

/// Behind this it says where it is.
const OPEN: &str = "the shop is open at http://";

/// The process; it dies with this.
#[derive(Debug)]
pub(crate) struct Shop {
    child: Child,
    /// Where it listens.
    pub(crate) address: String,
}

impl Shop {
    /// Opens on this store, at an address that nobody else has.
    pub(crate) fn open(store: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command.env("SHOP_STORE", store).env("SHOP_LISTEN", "127.0.0.1:0").stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            said.by_ref().find_map(|line| line.unwrap().strip_prefix(OPEN).map(str::to_owned));
        // What it says later is read, too, so that it never has to wait for that.
        std::thread::spawn(move || said.for_each(drop));
        Self { child, address: address.expect("a shop that opens says where") }
    }

    /// Presses Ctrl-C, and sees it end.
    pub(crate) fn close(mut self) {
        kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT).unwrap();
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < PATIENCE, "the shop goes on, though it was told to stop");
            std::thread::yield_now();
        }
    }
}

/// With SIGKILL: it has no chance to do anything about it.
impl Drop for Shop {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _gone = self.child.wait();
    }
}
