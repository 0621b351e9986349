//! The files around the code: policies, the workflow, templates, what deploys the command.
//!
//! The services that read most of them are not there when the tests run. So what can be wrong
//! without one is checked: syntax, what they refer to in this repository, the hosts they name.

mod deploy;
mod hosts;
mod policies;
mod workflow;
mod yaml;

/// Reads a file of the repository.
fn file(path: &str) -> String {
    let read = std::fs::read_to_string(tidelock_tidy::root().join(path));
    read.unwrap_or_else(|error| panic!("{path}: {error}"))
}
