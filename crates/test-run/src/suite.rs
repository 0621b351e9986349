//! The list of test binaries, from cargo's build messages.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::binary::Binary;

/// The relevant fields of a cargo message.
#[derive(Debug, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum CargoMessage {
    CompilerArtifact(Artifact),
    #[serde(other)]
    Else,
}

#[derive(Debug, Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    target: Target,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

/// Builds the selected tests, or else all of the workspace; cargo prints compile errors.
pub(crate) fn build(selection: &[String]) -> Result<Vec<Binary>, String> {
    let all = ["--workspace".to_owned()];
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["test", "--quiet", "--no-run", "--message-format=json-render-diagnostics"])
        .args(if selection.is_empty() { &all } else { selection })
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo does not start: {e}"))?;
    if !output.status.success() {
        return Err("the tests do not compile".to_owned());
    }
    let libraries = libraries()?;
    let messages = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<CargoMessage>();
    let binaries: Result<Vec<Option<Binary>>, _> =
        messages.map(|message| message.map(|message| binary(message, &libraries))).collect();
    let binaries: Vec<Binary> = binaries
        .map_err(|e| format!("cargo's answer is not understood: {e}"))?
        .into_iter()
        .flatten()
        .collect();
    if binaries.is_empty() { Err("cargo names no tests".to_owned()) } else { Ok(binaries) }
}

fn binary(message: CargoMessage, libraries: &OsString) -> Option<Binary> {
    let CargoMessage::CompilerArtifact(artifact) = message else { return None };
    let executable = artifact.executable.filter(|_| artifact.profile.test)?;
    let folder = artifact.manifest_path.parent()?.to_owned();
    Some(Binary {
        package: package_in(&folder),
        target: artifact.target.name,
        kind: artifact.target.kind.into_iter().next()?,
        executable,
        folder,
        libraries: libraries.clone(),
    })
}

/// Packages are named after their folders, except the main one.
fn package_in(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    if name == "tidelock" { name.into_owned() } else { format!("tidelock-{name}") }
}

/// The folder of the compiler's own libraries, which the tests of a proc-macro crate are linked
/// against.
fn libraries() -> Result<OsString, String> {
    let output = Command::new("rustc").args(["--print", "target-libdir"]).output();
    let output = output.map_err(|e| format!("rustc does not start: {e}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}
