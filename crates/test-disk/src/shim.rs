//! The shim: compiling it, and the environment in which a process is started behind it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the shim into a folder, and returns its path. Where Rust links, there is a C compiler.
///
/// # Errors
/// If there is none, or it refuses the source.
pub fn compile_shim(into: &Path) -> io::Result<PathBuf> {
    let (source, library) = (into.join("shim.c"), into.join("shim.so"));
    std::fs::write(&source, include_str!("shim.c"))?;
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([&library, &source])
        .args(["-ldl", "-pthread"])
        .status()?;
    match compiled.success() {
        true => Ok(library),
        false => Err(io::Error::other("the shim does not compile")),
    }
}

/// The environment of a process behind the shim: it looks after this folder, writes this journal,
/// and obeys this control file. The shim compares paths as the kernel knows them.
pub fn shim_environment<'a>(
    library: &'a Path,
    folder: &'a Path,
    journal: &'a Path,
    control: &'a Path,
) -> [(&'static str, &'a Path); 4] {
    [
        ("LD_PRELOAD", library),
        ("SHIM_FOLDER", folder),
        ("SHIM_JOURNAL", journal),
        ("SHIM_CONTROL", control),
    ]
}
