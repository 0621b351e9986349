//! Arguments of the commands that move or create a store.

use std::path::PathBuf;

use clap::ValueEnum;

#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// File to write, which must not exist
    pub(crate) file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// File to write; - is standard output
    pub(crate) file: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// What happens to reactions in an imported store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImportReactions {
    /// They continue where they were
    Continue,
    /// They handle every event again; effects outside the store are not repeated
    Rebuild,
    /// They are dropped: a reaction that is registered starts as a new one, and repeats its effects
    /// outside the store
    None,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// File that an export wrote; - is standard input
    pub(crate) file: PathBuf,
    /// What happens to reactions
    #[arg(long, value_enum)]
    pub(crate) reactions: ImportReactions,
    /// Show what would be imported, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Check whether the store is up to date, and change nothing: the exit code is 0 if it is, and
    /// 1 if not
    #[arg(long)]
    pub(crate) check: bool,
    /// Declare that the store was restored from a backup: positions, fences and revisions issued
    /// since the backup are not issued again
    #[arg(long, conflicts_with = "check")]
    pub(crate) restored: bool,
}
