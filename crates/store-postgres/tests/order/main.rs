//! The order of the feed, and that nothing is ever missing from it, over several real connections.
//!
//! Whoever appends takes a ticket before it draws positions, and nobody reads past a ticket that is
//! out. Here others keep theirs for long, give it back with nothing done, or leave transactions
//! open that have none, while readers look. [`naive`] shows that the same schedules do lose events
//! where positions come from a sequence and nothing else.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod bystander;
mod crossing;
mod end;
mod follower;
mod forgotten;
mod halted;
mod late;
mod naive;
mod standby;

#[path = "../ground/mod.rs"]
mod ground;
