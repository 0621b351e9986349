//! The simulator: several processes and one store, on one thread, in virtual time, from a seed.

mod app;
mod audit;
mod clients;
mod clock;
mod coverage;
mod fault;
mod file_store;
mod follower;
mod layer;
mod life;
mod mutants;
mod operator;
mod plan;
mod process;
mod profile;
mod rng;
mod search;
mod shrink;
mod simulation;
mod state;
mod story;
mod trace;
mod wakes;
mod world;

pub use coverage::{Coverage, SOMETIMES};
pub use fault::Fault;
pub use mutants::Mutant;
pub use plan::{Cut, Event, Plan};
pub use profile::Profile;
pub use search::{Failure, Progress, SHRINKING, find, search};
pub use shrink::shrink;
pub use simulation::{Report, quiet_panics, simulate};
pub use story::{command, story};
