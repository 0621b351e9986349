//! The inspector in a real browser: what it shows, what clicking does to the store, and what it
//! never does.
//!
//! Each test has a store, a server and a browser of its own. Nothing waits for a time: a page is
//! looked at until it shows what it should. With `TIDELOCK_PICTURES=folder` the screens are also
//! painted there, for people to look at.

// Clippy lets tests unwrap, but not what they have in common.
#![allow(clippy::unwrap_used)]

mod driver;
mod page;
mod shop;
mod site;

mod acting;
mod doctor;
mod hostile;
mod keyboard;
mod live;
mod many;
mod phone;
mod screens;
mod tokens;
