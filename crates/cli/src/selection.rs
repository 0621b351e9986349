//! Which work items are meant, and in which state they are.

mod state;
mod which;

pub(crate) use state::State;
pub(crate) use which::Selection;
