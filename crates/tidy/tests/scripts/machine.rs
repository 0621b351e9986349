//! A machine for a script: a `PATH` with a few real tools and with stubs that record their calls.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Tools that scripts use as they are.
const REAL: [&str; 5] = ["bash", "sh", "env", "dirname", "cat"];

/// The programs of a machine.
pub(crate) struct Machine {
    folder: PathBuf,
}

/// What a script did.
pub(crate) struct Ran {
    /// Whether its exit code was 0.
    pub(crate) succeeded: bool,
    /// The calls of stubs, in order.
    pub(crate) calls: Vec<String>,
    /// Its standard output and standard error.
    pub(crate) said: String,
}

impl Machine {
    /// Builds the machine of one test, without any stub.
    pub(crate) fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("machine-{test}"));
        let _none_yet = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("bin")).expect("the folder of temporary files");
        for tool in REAL {
            let found = ["/bin", "/usr/bin"].map(|place| Path::new(place).join(tool));
            let found = found.into_iter().find(|path| path.exists());
            symlink(found.expect("a basic tool"), folder.join("bin").join(tool)).expect("a link");
        }
        Self { folder }
    }

    /// Adds a program that records its call, reads its input and succeeds.
    pub(crate) fn with(self, program: &str) -> Self {
        self.with_answer(program, "")
    }

    /// Adds a program that also prints something.
    pub(crate) fn with_answer(self, program: &str, answer: &str) -> Self {
        let calls = self.folder.join("calls");
        let script = format!(
            "#!/bin/sh\necho \"{program} $*\" >>'{}'\ncat >/dev/null\necho '{answer}'\n",
            calls.display()
        );
        let path = self.folder.join("bin").join(program);
        fs::write(&path, script).expect("a stub");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a stub's mode");
        self
    }

    /// Runs a script of the repository, from another folder.
    pub(crate) fn run(&self, script: &str, arguments: &[&str]) -> Ran {
        let output = Command::new(tidelock_tidy::root().join(script))
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", self.folder.join("bin"))
            .stdin(std::process::Stdio::null())
            .output()
            .expect("the script can be run");
        let Output { status, stdout, stderr } = output;
        let said = [stdout, stderr].concat();
        let calls = fs::read_to_string(self.folder.join("calls")).unwrap_or_default();
        Ran {
            succeeded: status.success(),
            calls: calls.lines().map(str::to_owned).collect(),
            said: String::from_utf8(said).expect("scripts print text"),
        }
    }
}
