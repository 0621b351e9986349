//! Which work items are meant.

mod which;

pub(crate) use which::Selection;
