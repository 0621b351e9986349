//! PostgreSQL's programs: their location, and the user that runs them.
//!
//! The server refuses to run as root. Root therefore runs the programs as the user of Debian's
//! package, and gives it the folders; other users run them as themselves.

use std::cmp::Reverse;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::unistd::{Uid, User};

use crate::failure::Failure;

/// Where Debian keeps them, in one folder per major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// Names the folder of another version.
const NAMED: &str = "TIDELOCK_POSTGRES";

const ADVICE: &str = "PostgreSQL's server is not installed: run ./test, which installs it, or \
                      `apt-get install postgresql`, or put `initdb` and `postgres` on the PATH";

/// The programs of one version of PostgreSQL.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    folder: PathBuf,
    /// The user to switch to; `None` to keep the current one.
    account: Option<Account>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    user: u32,
    group: u32,
}

impl Programs {
    /// Those in the folder that `TIDELOCK_POSTGRES` names, which must be there; or else the newest
    /// version that Debian's packages installed, or the one on the `PATH`.
    pub(crate) fn find() -> Result<Self, Failure> {
        let folder = match std::env::var_os(NAMED).map(PathBuf::from) {
            Some(named) if holds_a_server(&named) => named,
            Some(named) => {
                let said = format!("{NAMED}: no initdb and postgres in {}", named.display());
                return Err(Failure::new(said));
            }
            None => newest_of_debian().or_else(on_the_path).ok_or_else(|| Failure::new(ADVICE))?,
        };
        Ok(Self { folder, account: account()? })
    }

    /// A command that runs one of the programs, without the environment variables that it would
    /// take as settings.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.folder.join(program));
        for (name, _) in
            std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PG"))
        {
            command.env_remove(name);
        }
        // The account may have no access to the current directory.
        command.current_dir("/").stdin(Stdio::null());
        if let Some(Account { user, group }) = self.account {
            command.uid(user).gid(group);
        }
        command
    }

    /// Changes the owner of a file or folder to the user of the programs.
    pub(crate) fn hand_over(&self, path: &Path) -> Result<(), Failure> {
        let Some(Account { user, group }) = self.account else { return Ok(()) };
        chown(path, Some(user), Some(group))
            .map_err(Failure::to(format!("hand over {}", path.display())))
    }
}

/// Runs a command and returns its output.
pub(crate) fn output_of(command: &mut Command) -> Result<String, Failure> {
    let output = command.output().map_err(Failure::to(format!("run {}", name_of(command))))?;
    judge(&name_of(command), &output)
}

/// The output of a program, if it succeeded, or else its error output.
pub(crate) fn judge(program: &str, output: &Output) -> Result<String, Failure> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(format!("{program} failed, {}: {}", output.status, complaint.trim())))
}

fn name_of(command: &Command) -> String {
    Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn newest_of_debian() -> Option<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(DEBIAN)
        .ok()?
        .flatten()
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(version, _)| Reverse(*version));
    versions.into_iter().map(|(_, folder)| folder).find(|folder| holds_a_server(folder))
}

fn on_the_path() -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?).find(|folder| holds_a_server(folder))
}

/// Debian's client package creates a folder of the version too, without a server.
fn holds_a_server(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file())
}

fn account() -> Result<Option<Account>, Failure> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let user = User::from_name("postgres").map_err(Failure::to("look up the user postgres"))?;
    let user = user.ok_or_else(|| {
        Failure::new("PostgreSQL does not run as root, and there is no user postgres")
    })?;
    Ok(Some(Account { user: user.uid.as_raw(), group: user.gid.as_raw() }))
}
