//! Closing the books, on every store: every sentence about it, and a caller that dies at every call
//! it makes.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod account;
mod behind;
mod close;
mod crowd;
mod deaths;
mod leftovers;
mod many;
mod races;
mod reactions;
mod rebuild;
mod window;

#[path = "../reactions/stage.rs"]
#[allow(dead_code)] // not every case needs all of it
mod stage;
