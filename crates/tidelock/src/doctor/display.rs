//! Formatting of findings: durations and counts for people, words for a shell. Also for callers
//! that print findings beside other output.

mod count;
mod moments;
mod shell;

pub use count::many;
pub use moments::{ago, ahead, length, span};
pub use shell::{is_tricky, quoted};
