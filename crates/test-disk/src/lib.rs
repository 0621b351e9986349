//! A disk that fails, lies and loses power, for one process.
//!
//! A small library between a process and the kernel, the [shim](compile_shim), keeps a journal of
//! what was written and when it was flushed, and can fail either. From the journal a [`Disk`] is
//! rebuilt as a loss of power could leave it. Linux only.

mod disk;
mod journal;
mod shim;

pub use disk::{Chance, Disk};
pub use journal::{Happening, parse_journal};
pub use shim::{compile_shim, shim_environment};
