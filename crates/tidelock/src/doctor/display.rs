//! How findings are worded: lengths of time for people, and words for a shell. For whoever prints
//! them beside other things, too.

mod count;
mod moments;
mod shell;

pub use count::many;
pub use moments::{ago, ahead, length, span};
pub use shell::{is_tricky, quoted};
