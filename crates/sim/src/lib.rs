//! Simulation of whole deployments from a seed, and checkers of whole histories.
//!
//! A history is the record of every client operation: what was asked, when, and what was answered.
//! The checkers are pure functions from a history, and from what a final read of the store found,
//! to violations. They know neither the simulator nor a store, so histories of real processes go
//! through the same checkers.

pub mod checkers;
pub mod history;
pub mod simulator;
