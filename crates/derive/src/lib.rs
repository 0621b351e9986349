//! `#[derive(Event)]`: the stored types of an event, and its conversion to and from JSON. And
//! `#[derive(Job)]`: the queue of a job.
//!
//! Each variant of an event is stored under its own type, with its fields as the payload; nothing
//! of the enum is stored, so variants can be moved between enums. The attributes are documented at
//! the traits `tidelock::Event` and `tidelock::jobs::Job`.

mod attributes;
mod expand;
mod job;
mod variant;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `tidelock::Event` for an enum, or for a struct that is one event.
#[proc_macro_derive(Event, attributes(event, serde))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::event(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Implements `tidelock::jobs::Job` for a type that can be serialized and deserialized.
#[proc_macro_derive(Job, attributes(job))]
pub fn derive_job(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    job::job(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
