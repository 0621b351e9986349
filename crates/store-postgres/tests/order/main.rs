//! The order of the feed, and that nothing is ever missing from it, over several real connections.
//!
//! Whoever appends locks the gate last of all and holds it until the commit is visible. Here others hold it for long, leave it
//! with nothing done, or leave transactions open beside it, while readers look. [`naive`] shows that the same schedules
//! do lose events where positions come from a sequence.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod bystander;
mod crossing;
mod follower;
mod late;
mod naive;
mod standby;

#[path = "../ground/mod.rs"]
mod ground;
