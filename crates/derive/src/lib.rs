//! `#[derive(Event)]`: the stored types of an event, and the way to and from JSON.
//!
//! Each variant is stored under a type of its own, with its fields as the payload; nothing of the
//! enum around it is stored, so variants can be moved between enums. The attributes are described
//! where users look for them: at the trait `tidelock::Event`.

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
