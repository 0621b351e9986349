//! Path to a value in a document.
//!
//! A plain name is a field of the document. A path that starts with a slash is a JSON pointer (RFC
//! 6901); the empty path is the whole document.

use std::fmt;

use serde_json::{Map, Value};

use super::edit::Unfit;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl Pointer {
    pub(super) fn new(text: &str) -> Self {
        let unescaped = |token: &str| token.replace("~1", "/").replace("~0", "~");
        let tokens = match text.strip_prefix('/') {
            Some(path) => path.split('/').map(unescaped).collect(),
            None if text.is_empty() => Vec::new(),
            None => vec![text.to_owned()],
        };
        Self { text: text.to_owned(), tokens }
    }

    fn is_root(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The path as a JSON pointer.
    pub(super) fn canonical(&self) -> String {
        let escaped = |token: &String| token.replace('~', "~0").replace('/', "~1");
        self.tokens.iter().map(|token| format!("/{}", escaped(token))).collect()
    }

    /// How many levels the path leads down.
    pub(super) fn depth(&self) -> usize {
        self.tokens.len()
    }

    /// Returns the value at the path and creates the objects that lead to it; `null` if it was
    /// absent.
    pub(super) fn make<'a>(&self, document: &'a mut Value) -> Result<&'a mut Value, Unfit> {
        let mut at = document;
        for token in &self.tokens {
            at = match at {
                Value::Array(items) => {
                    let found = token.parse().ok().and_then(|nth: usize| items.get_mut(nth));
                    found.ok_or_else(|| Unfit(format!("{self}: the list has no item {token:?}")))?
                }
                other => self.entries(other)?.entry(token).or_insert(Value::Null),
            };
        }
        Ok(at)
    }

    /// Returns the value at the path, if it exists.
    pub(super) fn find<'a>(&self, document: &'a mut Value) -> Option<&'a mut Value> {
        let mut tokens = self.tokens.iter();
        tokens.try_fold(document, |at, token| match at {
            Value::Array(items) => items.get_mut(token.parse::<usize>().ok()?),
            Value::Object(entries) => entries.get_mut(token),
            _ => None,
        })
    }

    /// Returns the entries of an object; `null` becomes an empty object.
    pub(super) fn entries<'a>(
        &self,
        here: &'a mut Value,
    ) -> Result<&'a mut Map<String, Value>, Unfit> {
        if here.is_null() {
            *here = Value::Object(Map::new());
        }
        let unfit = self.unfit(here, "an object");
        here.as_object_mut().ok_or(unfit)
    }

    /// Describes a value of the wrong type.
    pub(super) fn unfit(&self, found: &Value, wanted: &str) -> Unfit {
        let found = match found {
            Value::Null => "nothing",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Unfit(format!("{self}: there is {found} where {wanted} is needed"))
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() { f.write_str("the document") } else { write!(f, "{:?}", self.text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_name_is_a_field_and_a_slash_starts_a_json_pointer() {
        let mut document = json!({ "a/b": 1, "c": { "d": [10, 20] }, "~": 3 });
        let mut at = |text: &str| Pointer::new(text).find(&mut document).cloned();
        assert_eq!(at("a/b"), Some(json!(1)));
        assert_eq!(at("/a~1b"), Some(json!(1)));
        assert_eq!(at("/c/d/1"), Some(json!(20)));
        assert_eq!(at("/~0"), Some(json!(3)));
        assert_eq!(at("/c/e"), None);
        assert_eq!(at("").map(|all| all.is_object()), Some(true));
        let canonical = |text: &str| Pointer::new(text).canonical();
        assert_eq!(
            [canonical("~a/b"), canonical("/~0a~1b"), canonical("")],
            ["/~0a~1b", "/~0a~1b", ""]
        );
    }

    #[test]
    fn missing_objects_are_created_but_other_values_are_not_replaced() {
        let mut document = Value::Null;
        *Pointer::new("/a/b").make(&mut document).unwrap() = json!(1);
        assert_eq!(document, json!({ "a": { "b": 1 } }));
        let refused = Pointer::new("/a/b/c").make(&mut document).unwrap_err();
        assert_eq!(refused.0, "\"/a/b/c\": there is a number where an object is needed");
        let mut list = json!([1]);
        assert!(Pointer::new("/7").make(&mut list).is_err());
    }
}
