//! One test binary, and the result of its run.

use std::ffi::OsString;
use std::io::{self, Read, Seek};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Binary {
    pub(crate) package: String,
    pub(crate) target: String,
    pub(crate) kind: String,
    pub(crate) executable: PathBuf,
    /// The folder of its package, where cargo would run it.
    pub(crate) folder: PathBuf,
    pub(crate) libraries: OsString,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) passed: bool,
    /// How it ended: with an exit code, or by a signal.
    pub(crate) end: String,
    pub(crate) took: Duration,
    pub(crate) said: String,
}

impl Binary {
    pub(crate) fn run(&self, filter: &[String]) -> Ran {
        let begun = Instant::now();
        let ran =
            self.output(filter).map(|(status, said)| (status.success(), status.to_string(), said));
        let (passed, end, said) =
            ran.unwrap_or_else(|e| (false, format!("it does not start: {e}"), String::new()));
        Ran { passed, end, took: begun.elapsed(), said }
    }

    /// Both outputs go into one file, in order. Not into a pipe: that ends only with the last
    /// process that a test has left behind.
    fn output(&self, filter: &[String]) -> io::Result<(ExitStatus, String)> {
        let mut said = tempfile::tempfile()?;
        let status = Command::new(&self.executable)
            .args(filter)
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("LD_LIBRARY_PATH", &self.libraries)
            .stdin(Stdio::null())
            .stdout(said.try_clone()?)
            .stderr(said.try_clone()?)
            .status()?;
        said.rewind()?;
        let mut bytes = Vec::new();
        said.read_to_end(&mut bytes)?;
        Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// The cargo arguments that run only this one.
    pub(crate) fn selection(&self) -> String {
        match self.kind.as_str() {
            "test" | "bin" | "example" => format!("--{} {}", self.kind, self.target),
            _ => "--lib".to_owned(),
        }
    }
}

impl Ran {
    /// The number of passed tests, from the binary's own summary.
    pub(crate) fn count(&self) -> String {
        let results = self.said.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
        results
            .filter_map(|line| line.split(';').next())
            .next_back()
            .unwrap_or("no count")
            .to_owned()
    }
}
