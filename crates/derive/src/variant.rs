//! One event: its stored type, the older types that it reads, and its fields.

use quote::ToTokens;
use syn::{Attribute, Error, Expr, Fields, Ident, LitStr, Path, Result};

use crate::attributes::{Naming, serde_value};

/// A variant of an enum, or a struct, under its stored types.
pub(crate) struct Variant<'a> {
    pub(crate) ident: &'a Ident,
    pub(crate) fields: &'a Fields,
    pub(crate) naming: Naming,
    /// serde's `rename_all` for the fields.
    pub(crate) rename_all: Option<Expr>,
    name: String,
    version: usize,
}

/// A stored type, and the upcasters from it to the current version.
pub(crate) struct Stored<'a> {
    pub(crate) event_type: String,
    pub(crate) upcasters: &'a [Path],
}

impl<'a> Variant<'a> {
    pub(crate) fn new(
        ident: &'a Ident,
        fields: &'a Fields,
        attributes: &[Attribute],
        naming: Naming,
        prefix: Option<&LitStr>,
    ) -> Result<Self> {
        let version = naming.version()?;
        let upcasters = naming.upcasters.len();
        if upcasters != 0 && upcasters != version - 1 {
            let message = format!(
                "version {version} is reached in {} steps, but there are {upcasters} upcasters: name the function from \
                 version 1 to 2 first, and so on",
                version - 1
            );
            return Err(Error::new_spanned(&naming.upcasters[0], message));
        }
        let name = checked_name(ident, &naming, prefix)?;
        let rename_all = serde_value(attributes, "rename_all");
        Ok(Self { ident, fields, naming, rename_all, name, version })
    }

    /// The current stored type.
    pub(crate) fn event_type(&self) -> String {
        stored_type(&self.name, self.version)
    }

    /// Every stored type that it reads, the current one first.
    pub(crate) fn stored(&self) -> Vec<Stored<'_>> {
        let upcasters = &self.naming.upcasters;
        let oldest = self.version - upcasters.len();
        let names: Vec<String> = std::iter::once(self.name.clone())
            .chain(self.naming.was.iter().map(LitStr::value))
            .collect();
        let versions = (oldest..=self.version).rev();
        versions
            .flat_map(|version| {
                let upcasters = &upcasters[version - oldest..];
                names
                    .iter()
                    .map(move |name| Stored { event_type: stored_type(name, version), upcasters })
            })
            .collect()
    }
}

fn checked_name(ident: &Ident, naming: &Naming, prefix: Option<&LitStr>) -> Result<String> {
    for name in naming.name.iter().chain(&naming.was).chain(prefix) {
        check(name, &name.value())?;
    }
    let own = naming.name.as_ref().map_or_else(|| snake_case(&ident.to_string()), LitStr::value);
    Ok(prefix.map_or(own.clone(), |prefix| format!("{}.{own}", prefix.value())))
}

fn check(at: &impl ToTokens, name: &str) -> Result<()> {
    let wrong = if name.is_empty() {
        "the stored type of an event is not empty"
    } else if name.starts_with('~') {
        "names that begin with `~` are Tidelock's own"
    } else if name.contains('@') {
        "the version is said with `version = …`; `@` stands before it in the stored type"
    } else {
        return Ok(());
    };
    Err(Error::new_spanned(at, wrong))
}

/// The first version of an event is stored under its plain name.
fn stored_type(name: &str, version: usize) -> String {
    if version == 1 { name.to_owned() } else { format!("{name}@{version}") }
}

fn snake_case(name: &str) -> String {
    let letters: Vec<char> = name.trim_start_matches("r#").chars().collect();
    let mut snake = String::new();
    for (at, letter) in letters.iter().enumerate() {
        if letter.is_uppercase() && at > 0 && starts_word(&letters, at) {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}

/// `VatIDChanged` is `vat_id_changed`: an uppercase letter begins a word after a lowercase letter,
/// or before one.
fn starts_word(letters: &[char], at: usize) -> bool {
    let small = |at: usize| letters.get(at).is_some_and(|letter| letter.is_lowercase());
    letters[at - 1] != '_' && (!letters[at - 1].is_uppercase() || small(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_is_stored_in_snake_case() {
        for (ident, stored) in [
            ("Received", "received"),
            ("ItemReceived", "item_received"),
            ("VatIDChanged", "vat_id_changed"),
            ("HTTP", "http"),
            ("Stage2Done", "stage2_done"),
            ("Über", "über"),
            ("A", "a"),
        ] {
            assert_eq!(snake_case(ident), stored);
        }
    }

    #[test]
    fn the_first_version_has_the_plain_name() {
        assert_eq!(stored_type("reserved", 1), "reserved");
        assert_eq!(stored_type("reserved", 2), "reserved@2");
    }
}
