//! The crate's front page: the prelude stays small, and the page links every public module.
//!
//! A reader who opens the documentation of `tidelock` finds each item from there: the root's own
//! items are listed by rustdoc, and those of a module are one link away.

use tidelock_tidy::{Source, sources};

const FRONT_PAGE: &str = "crates/tidelock/src/lib.rs";
const MOST_NAMES: usize = 30;

#[test]
fn the_prelude_is_small() {
    let names = prelude(&front_page());
    assert!(names.contains(&"Tidelock".to_owned()), "the prelude was not found: {names:?}");
    assert!(
        names.len() <= MOST_NAMES,
        "the prelude has {} names, {MOST_NAMES} at most: {names:?}",
        names.len()
    );
}

#[test]
fn the_front_page_links_every_public_module() {
    let page = front_page();
    let docs: String =
        page.lines().filter(|(_, line)| line.starts_with("//!")).map(|(_, line)| line).collect();
    let modules = public_modules(&page);
    assert!(modules.len() > 8, "the modules were not found: {modules:?}");
    for module in modules {
        let links = [format!("[`{module}`]"), format!("]({module})"), format!("`{module}`")];
        assert!(
            links.iter().any(|link| docs.contains(link)),
            "{FRONT_PAGE}: the page does not name the module {module}"
        );
    }
}

#[test]
fn names_and_modules_are_counted() {
    let page = Source::new(
        FRONT_PAGE,
        "pub mod a;\npub use b_crate as b;\npub(crate) mod c;\n\
         pub mod prelude {\n    pub use crate::a::X;\n    pub use crate::a::{\n        Y, Z,\n    };\n}\n",
    );
    assert_eq!(prelude(&page), ["X", "Y", "Z"]);
    assert_eq!(public_modules(&page), ["a", "b", "prelude"]);
}

fn front_page() -> Source {
    let mut pages = sources(FRONT_PAGE);
    pages.pop().expect("the crate has a front page")
}

/// The names that `pub mod prelude` exports.
fn prelude(page: &Source) -> Vec<String> {
    let text = page.text.split("pub mod prelude {").nth(1).unwrap_or_default();
    let text = text.split("\n}").next().unwrap_or_default();
    let uses = text.split("pub use ").skip(1).filter_map(|used| used.split(';').next());
    let names = uses.flat_map(|used| match used.split_once('{') {
        Some((_, names)) => names.trim_end().trim_end_matches('}').split(',').collect(),
        None => used.rsplit("::").take(1).collect::<Vec<_>>(),
    });
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// The modules of the root, also those that are another crate.
fn public_modules(page: &Source) -> Vec<String> {
    let declared = |line: &str| {
        let module =
            line.strip_prefix("pub mod ").map(|rest| rest.trim_end_matches([';', '{', ' ']));
        let alias = line.strip_prefix("pub use ").and_then(|rest| rest.split_once(" as "));
        module.or(alias.map(|(_, name)| name.trim_end_matches(';'))).map(str::to_owned)
    };
    let modules = page.lines().filter_map(|(_, line)| declared(line));
    modules.filter(|module| !module.starts_with("__")).collect()
}
