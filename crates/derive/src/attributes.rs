//! Parser of the attribute `#[event(…)]`.

use syn::meta::ParseNestedMeta;
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, Ident, LitInt, LitStr, Path, Result, Token, parenthesized};

/// On the whole type: `prefix = "stock"`.
#[derive(Default)]
pub(crate) struct Container {
    pub(crate) prefix: Option<LitStr>,
}

/// On a variant, or on a struct: `name = "…"`, `version = 2`, `upcast(f, g)`, `was("…")`.
#[derive(Default)]
pub(crate) struct Naming {
    pub(crate) name: Option<LitStr>,
    pub(crate) version: Option<LitInt>,
    pub(crate) upcasters: Vec<Path>,
    pub(crate) was: Vec<LitStr>,
}

impl Container {
    /// The attributes of an enum.
    pub(crate) fn of_enum(attributes: &[Attribute]) -> Result<Self> {
        let mut container = Self::default();
        each(attributes, |meta| match container.take(meta)? {
            true => Ok(()),
            false => {
                Err(meta.error("on an enum there is only `prefix`; the rest goes to its variants"))
            }
        })?;
        Ok(container)
    }

    /// The attributes of a struct, which is type and variant in one.
    pub(crate) fn of_struct(attributes: &[Attribute]) -> Result<(Self, Naming)> {
        let (mut container, mut naming) = (Self::default(), Naming::default());
        each(attributes, |meta| match container.take(meta)? {
            true => Ok(()),
            false => naming.take(meta),
        })?;
        Ok((container, naming))
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<bool> {
        if !meta.path.is_ident("prefix") {
            return Ok(false);
        }
        self.prefix = Some(meta.value()?.parse()?);
        Ok(true)
    }
}

impl Naming {
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Self> {
        let mut naming = Self::default();
        each(attributes, |meta| naming.take(meta))?;
        Ok(naming)
    }

    fn take(&mut self, meta: &ParseNestedMeta<'_>) -> Result<()> {
        match meta.path.get_ident().map(Ident::to_string).as_deref() {
            Some("name") => self.name = Some(meta.value()?.parse()?),
            Some("version") => self.version = Some(meta.value()?.parse()?),
            Some("upcast") => self.upcasters = list::<Path>(meta)?,
            Some("was") => self.was = list::<LitStr>(meta)?,
            _ => return Err(meta.error("expected `name`, `version`, `upcast` or `was`")),
        }
        Ok(())
    }

    /// The version; 1 by default.
    pub(crate) fn version(&self) -> Result<usize> {
        let Some(literal) = &self.version else { return Ok(1) };
        match literal.base10_parse()? {
            0 => Err(Error::new_spanned(literal, "versions of an event count from 1")),
            version => Ok(version),
        }
    }
}

fn list<T: syn::parse::Parse>(meta: &ParseNestedMeta<'_>) -> Result<Vec<T>> {
    let inside;
    parenthesized!(inside in meta.input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&inside)?.into_iter().collect())
}

fn each(
    attributes: &[Attribute],
    mut take: impl FnMut(&ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    let ours = attributes.iter().filter(|attribute| attribute.path().is_ident("event"));
    ours.into_iter().try_for_each(|attribute| attribute.parse_nested_meta(|meta| take(&meta)))
}

/// The value of `key` in a `#[serde(…)]`, if it is there; everything else is left to serde.
pub(crate) fn serde_value(attributes: &[Attribute], key: &str) -> Option<Expr> {
    let mut found = None;
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let _elsewhere_refused = attribute.parse_nested_meta(|meta| {
            if meta.input.peek(Token![=]) {
                let value: Expr = meta.value()?.parse()?;
                if meta.path.is_ident(key) {
                    found = Some(value);
                }
            } else if meta.input.peek(syn::token::Paren) {
                let inside;
                parenthesized!(inside in meta.input);
                let _ignored: proc_macro2::TokenStream = inside.parse()?;
            }
            Ok(())
        });
    }
    found
}
