//! `#[derive(Job)]`: the parser of the attribute `#[job(…)]`, and the implementation of `Job`.
//!
//! The attribute says what the trait would say: the queue, and the function of the options.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{DeriveInput, Error, Expr, Path, Result};

/// On the whole type: `queue = "mail"`, `options = path`, `concurrency_key = path`.
#[derive(Default)]
struct Attributes {
    queue: Option<Expr>,
    options: Option<Path>,
    concurrency_key: Option<Path>,
}

impl Attributes {
    fn of(input: &DeriveInput) -> Result<Self> {
        let mut read = Self::default();
        for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("job")) {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("queue") {
                    read.queue = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("options") {
                    read.options = Some(meta.value()?.parse()?);
                } else if meta.path.is_ident("concurrency_key") {
                    read.concurrency_key = Some(meta.value()?.parse()?);
                } else {
                    return Err(meta.error("expected `queue`, `options` or `concurrency_key`"));
                }
                Ok(())
            })?;
        }
        Ok(read)
    }
}

/// The implementation of the trait.
pub(crate) fn job(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        let message = "a job has no parameters: its queue belongs to one type";
        return Err(Error::new_spanned(&input.generics, message));
    }
    let Attributes { queue, options, concurrency_key } = Attributes::of(input)?;
    let missing = "a job names its queue: #[job(queue = \"mail\")]";
    let queue = queue.ok_or_else(|| Error::new_spanned(&input.ident, missing))?;
    let name = &input.ident;
    let options = options.map(|options| {
        quote! {
            fn options() -> ::tidelock::jobs::JobOptions {
                #options()
            }
        }
    });
    let concurrency_key = concurrency_key.map(|key| {
        quote! {
            fn concurrency_key(&self) -> ::core::option::Option<::std::string::String> {
                #key(self)
            }
        }
    });
    Ok(quote! {
        #[automatically_derived]
        impl ::tidelock::jobs::Job for #name {
            const QUEUE: &'static str = #queue;
            #options
            #concurrency_key
        }
    })
}
