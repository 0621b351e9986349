//! Arguments of the commands that move a store, or make one.

use std::path::PathBuf;

use clap::ValueEnum;

#[derive(Debug, clap::Args)]
pub(crate) struct ExportArgs {
    /// File to write; - is standard output
    pub(crate) file: PathBuf,
    /// Write over a file that is there
    #[arg(long)]
    pub(crate) overwrite: bool,
}

/// What becomes of reactions in a store that was imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReactionsThen {
    /// They go on where they were
    Continue,
    /// They handle every event again; what they did outside the store is not repeated
    Rebuild,
    /// They are forgotten: one that is registered begins as if it were new, and repeats what it did
    /// outside the store
    None,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportArgs {
    /// File that an export wrote; - is standard input
    pub(crate) file: PathBuf,
    /// What becomes of reactions
    #[arg(long, value_enum)]
    pub(crate) reactions: ReactionsThen,
    /// Say what would be imported, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Say whether the store is up to date, and change nothing: the exit code is 0 if it is, and 1
    /// if not
    #[arg(long)]
    pub(crate) check: bool,
    /// Say that the store was restored from a backup: positions, fences and revisions that were
    /// handed out since are not handed out again
    #[arg(long, conflicts_with = "check")]
    pub(crate) restored: bool,
}
