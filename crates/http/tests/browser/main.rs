//! The inspector in a real browser: what it shows, what clicking does to the store, and what it
//! never does.
//!
//! Each test has its own store, server and browser. Nothing waits for a fixed time: the page is
//! polled until it shows what it should. With `TIDELOCK_PICTURES=folder` screenshots are written
//! there.

// Clippy allows unwrap in tests, but not in their helpers.
#![allow(clippy::unwrap_used)]

mod driver;
mod page;
mod shop;
mod site;

mod actions;
mod doctor;
mod hostile;
mod keyboard;
mod live;
mod many;
mod phone;
mod screens;
mod tokens;
