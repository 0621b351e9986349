//! The scripts at the repository's root, run with stubs in place of every program they call.

mod demo;
mod machine;
