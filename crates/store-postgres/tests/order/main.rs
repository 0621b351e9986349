//! Feed order: nothing is ever missing from the feed, over several real connections.
//!
//! An append takes a ticket before it draws positions, and no reader passes a ticket that is held.
//! Here sessions keep theirs for long, roll back, or leave unrelated transactions open, while
//! readers read. [`naive`] shows that the same schedules do lose events where positions come from a
//! sequence and nothing else.

// Clippy lets tests unwrap, but not their helpers.
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
