//! The repository's rules for text: each module is one rule, tried on a text that breaks it and
//! then on every file.

mod bounds;
mod comments;
mod edges;
mod front_page;
mod keys;
mod markdown;
mod oldest_rust;
mod packages;
mod references;
mod type_names;
mod words;
