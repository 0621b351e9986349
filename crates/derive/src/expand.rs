//! Code generation: the implementation of `Event` for a type.
//!
//! Every variant gets two small structs with its fields: one that borrows them, for serialization,
//! and one that owns them, for deserialization. So the payload contains only the fields, whatever
//! serde attributes the enum has; serde attributes of fields apply.

use std::collections::HashMap;

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Attribute, Data, DeriveInput, Error, Field, Fields, Result};

use crate::attributes::{Container, Naming, serde_value};
use crate::variant::Variant;

/// The implementation of the trait.
pub(crate) fn event(input: &DeriveInput) -> Result<TokenStream> {
    if !input.generics.params.is_empty() {
        let message = "an event has no parameters: what is stored must not depend on who reads it";
        return Err(Error::new_spanned(&input.generics, message));
    }
    match &input.data {
        Data::Enum(data) => of_enum(input, data),
        Data::Struct(data) => of_struct(input, data),
        Data::Union(_) => Err(Error::new_spanned(input, "an event is an enum or a struct")),
    }
}

fn of_enum(input: &DeriveInput, data: &syn::DataEnum) -> Result<TokenStream> {
    let container = Container::of_enum(&input.attrs)?;
    let fields_renamed = serde_value(&input.attrs, "rename_all_fields");
    let mut variants = Vec::new();
    for variant in &data.variants {
        let naming = Naming::of(&variant.attrs)?;
        let prefix = container.prefix.as_ref();
        let mut one =
            Variant::new(&variant.ident, &variant.fields, &variant.attrs, naming, prefix)?;
        one.rename_all = one.rename_all.or_else(|| fields_renamed.clone());
        variants.push(one);
    }
    if variants.is_empty() {
        return Err(Error::new_spanned(input, "an enum of events has at least one"));
    }
    implement(input, &variants, |variant| {
        let ident = variant.ident;
        quote!(Self::#ident)
    })
}

fn of_struct(input: &DeriveInput, data: &syn::DataStruct) -> Result<TokenStream> {
    let (container, naming) = Container::of_struct(&input.attrs)?;
    let prefix = container.prefix.as_ref();
    let variant = Variant::new(&input.ident, &data.fields, &input.attrs, naming, prefix)?;
    implement(input, &[variant], |_| quote!(Self))
}

fn implement(
    input: &DeriveInput,
    variants: &[Variant<'_>],
    path: impl Fn(&Variant<'_>) -> TokenStream,
) -> Result<TokenStream> {
    refuse_doubles(variants)?;
    let name = &input.ident;
    let types = variants.iter().flat_map(Variant::stored).map(|stored| stored.event_type);
    let shapes = variants.iter().map(shape);
    let (mut named, mut written, mut read) = (Vec::new(), Vec::new(), Vec::new());
    for variant in variants {
        let path = path(variant);
        let event_type = variant.event_type();
        named.push(quote!(#path { .. } => #event_type));
        written.push(write(variant, &path));
        read.push(read_all(variant, &path));
    }
    Ok(quote! {
        const _: () = {
            use ::tidelock::__private as tl;
            #(#shapes)*

            #[automatically_derived]
            impl ::tidelock::Event for #name {
                const TYPES: &'static [&'static str] = &[#(#types),*];

                fn event_type(&self) -> &'static str {
                    match self { #(#named),* }
                }

                fn encode(&self) -> ::core::result::Result<tl::RawJson, tl::StoreError> {
                    match self { #(#written),* }
                }

                fn decode(event_type: &str, payload: &tl::RawJson) -> ::core::result::Result<Self, tl::DecodeError> {
                    match event_type {
                        #(#read)*
                        _ => ::core::result::Result::Err(tl::unknown_type::<Self>(event_type)),
                    }
                }
            }
        };
    })
}

/// Refuses two events with the same stored type.
fn refuse_doubles(variants: &[Variant<'_>]) -> Result<()> {
    let mut taken = HashMap::new();
    for variant in variants {
        for stored in variant.stored() {
            if let Some(other) = taken.insert(stored.event_type.clone(), variant.ident) {
                let message = format!("{:?} is stored for `{other}` already", stored.event_type);
                return Err(Error::new_spanned(variant.ident, message));
            }
        }
    }
    Ok(())
}

/// The structs that are serialized and deserialized for a variant.
fn shape(variant: &Variant<'_>) -> TokenStream {
    let (borrowed, owned) =
        (format_ident!("{}Ref", variant.ident), format_ident!("{}Owned", variant.ident));
    let renamed = variant.rename_all.as_ref().map(|case| quote!(#[serde(rename_all = #case)]));
    let head = quote! {
        #[serde(crate = "::tidelock::__private::serde")]
        #renamed
    };
    let (written, read) = (fields(variant.fields, true), fields(variant.fields, false));
    let lifetime = (!variant.fields.is_empty()).then(|| quote!(<'a>));
    let end = matches!(variant.fields, Fields::Unnamed(_)).then(|| quote!(;));
    quote! {
        #[derive(tl::serde::Serialize)] #head
        struct #borrowed #lifetime #written #end
        #[derive(tl::serde::Deserialize)] #head
        struct #owned #read #end
    }
}

fn fields(fields: &Fields, borrowed: bool) -> TokenStream {
    let each = fields.iter().map(|field| one_field(field, borrowed));
    match fields {
        Fields::Unnamed(_) => quote!((#(#each),*)),
        Fields::Named(_) | Fields::Unit => quote!({ #(#each),* }),
    }
}

fn one_field(field: &Field, borrowed: bool) -> TokenStream {
    let serde: Vec<&Attribute> =
        field.attrs.iter().filter(|a| a.path().is_ident("serde")).collect();
    let name = field.ident.as_ref().map(|name| quote!(#name:));
    let ty = &field.ty;
    let by = borrowed.then(|| quote!(&'a));
    quote!(#(#serde)* #name #by #ty)
}

/// `Self::Variant { a, b } => …` for both ways of writing fields: members are named `0`, `1` where
/// they have no name.
fn members(variant: &Variant<'_>) -> Vec<(syn::Member, syn::Ident)> {
    let members = variant.fields.members().enumerate();
    members.map(|(at, member)| (member, format_ident!("field_{at}"))).collect()
}

fn write(variant: &Variant<'_>, path: &TokenStream) -> TokenStream {
    let borrowed = format_ident!("{}Ref", variant.ident);
    let members: Vec<TokenStream> =
        members(variant).into_iter().map(|(member, local)| quote!(#member: #local)).collect();
    quote!(#path { #(#members),* } => tl::encode(&#borrowed { #(#members),* }))
}

fn read_all(variant: &Variant<'_>, path: &TokenStream) -> TokenStream {
    let owned = format_ident!("{}Owned", variant.ident);
    let members: Vec<TokenStream> =
        members(variant).into_iter().map(|(member, _)| quote!(#member: fields.#member)).collect();
    let arms = variant.stored().into_iter().map(|stored| {
        let (event_type, upcasters) = (stored.event_type, stored.upcasters);
        quote!(#event_type => &[#(#upcasters as tl::Upcaster),*][..],)
    });
    let types = variant.stored().into_iter().map(|stored| stored.event_type);
    quote! {
        #(#types)|* => {
            let upcasters: &[tl::Upcaster] = match event_type { #(#arms)* _ => &[] };
            let fields: #owned = tl::decode::<Self, _>(event_type, payload, upcasters)?;
            let _ = &fields;
            ::core::result::Result::Ok(#path { #(#members),* })
        }
    }
}
