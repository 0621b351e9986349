//! `#[derive(Event)]`: the stored types of an event, and its conversion to and from JSON.
//!
//! Each variant is stored under its own type, with its fields as the payload; nothing of the enum
//! is stored, so variants can be moved between enums. The attributes are documented at the trait
//! `tidelock::Event`.

mod attributes;
mod expand;
mod variant;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `tidelock::Event` for an enum, or for a struct that is one event.
#[proc_macro_derive(Event, attributes(event, serde))]
pub fn derive_event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    expand::event(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
