//! The server's tokens, read from a text of lines: a role, a name, and the token.
//!
//! Only digests are kept. The token of a request is digested too, and compared with every digest in
//! constant time, so the response time reveals nothing about a token. No error contains a token.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use super::caller::Caller;
use crate::limits;

/// Why a token file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// A line does not have three words.
    #[error(
        "line {line} of the tokens has {words} words: write a role, a name and the token, for example: reader grafana 5f0c… (openssl rand -hex 32 makes one)"
    )]
    Form {
        /// The line's number.
        line: usize,
        /// How many words it has.
        words: usize,
    },
    /// A line does not begin with a role.
    #[error(
        "line {line} of the tokens does not begin with a role: write reader, writer or operator"
    )]
    Role {
        /// The line's number.
        line: usize,
    },
    /// A name is too long, or cannot be displayed.
    #[error(
        "line {line} of the tokens: the name has to be plain text of at most {} characters",
        limits::TOKEN_NAME
    )]
    Name {
        /// The line's number.
        line: usize,
    },
    /// A token is too short to be safe.
    #[error(
        "line {line}: the token of {name:?} has {length} characters, and fewer than {} can be guessed: openssl rand -hex 32 makes a good one",
        limits::TOKEN_LEAST
    )]
    Short {
        /// The line's number.
        line: usize,
        /// The token's name.
        name: String,
        /// The token's length.
        length: usize,
    },
    /// A token cannot be sent in a header.
    #[error(
        "line {line}: the token of {name:?} has to be printable ASCII without spaces, of at most {} characters",
        limits::TOKEN_MOST
    )]
    Unsendable {
        /// The line's number.
        line: usize,
        /// The token's name.
        name: String,
    },
    /// Two tokens have the same name, so the audit log could not tell them apart.
    #[error("line {line}: the name {name:?} is already used: give each token its own name")]
    DoubledName {
        /// The line's number.
        line: usize,
        /// The name.
        name: String,
    },
    /// Two names have the same token, so the audit log could not tell them apart.
    #[error("line {line}: {name:?} has the same token as {other:?}: give each its own")]
    DoubledToken {
        /// The line's number.
        line: usize,
        /// The name.
        name: String,
        /// The other name.
        other: String,
    },
    /// The text has no token.
    #[error(
        "there is no token in the text: write a line with a role, a name and the token, for example: operator alice 5f0c… (openssl rand -hex 32 makes one)"
    )]
    None,
    /// There are too many tokens to compare.
    #[error("there are more than {} tokens", limits::TOKENS)]
    TooMany,
}

/// The tokens that a server accepts.
#[derive(Clone)]
pub struct Tokens {
    known: Arc<[Known]>,
}

struct Known {
    digest: [u8; 32],
    caller: Caller,
}

impl Tokens {
    /// Parses tokens, one per line: `operator alice 3f9c…`. Empty lines, and lines that begin with
    /// `#`, are ignored.
    ///
    /// # Errors
    /// If a line cannot be used. The error names the line, never the token.
    pub fn read(text: &str) -> Result<Self, TokenError> {
        let mut known: Vec<Known> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            if let Some(token) = Known::read(line, text)? {
                token.check_differs(line, &known)?;
                known.push(token);
            }
        }
        match known.len() {
            0 => Err(TokenError::None),
            1..=limits::TOKENS => Ok(Self { known: known.into() }),
            _ => Err(TokenError::TooMany),
        }
    }

    /// Finds the caller with this token, in constant time.
    pub(crate) fn caller(&self, token: &str) -> Option<&Caller> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let (mut found, mut at) = (Choice::from(0), 0_u32);
        for (nth, known) in (0..).zip(self.known.iter()) {
            let same = known.digest.ct_eq(&digest);
            at.conditional_assign(&nth, same);
            found |= same;
        }
        bool::from(found).then(|| &self.known[at as usize].caller)
    }
}

impl Known {
    fn read(line: usize, text: &str) -> Result<Option<Self>, TokenError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (role, name, token) = match words[..] {
            [] => return Ok(None),
            [first, ..] if first.starts_with('#') => return Ok(None),
            [role, name, token] => (role, name, token),
            _ => return Err(TokenError::Form { line, words: words.len() }),
        };
        let role = role.parse().map_err(|()| TokenError::Role { line })?;
        if name.chars().count() > limits::TOKEN_NAME || name.chars().any(char::is_control) {
            return Err(TokenError::Name { line });
        }
        check_strength(line, name, token)?;
        let caller = Caller { name: Some(name.into()), role };
        Ok(Some(Self { digest: Sha256::digest(token.as_bytes()).into(), caller }))
    }

    fn check_differs(&self, line: usize, others: &[Self]) -> Result<(), TokenError> {
        let name = self.caller.shown().to_owned();
        if others.iter().any(|other| other.caller.name == self.caller.name) {
            return Err(TokenError::DoubledName { line, name });
        }
        match others.iter().find(|other| other.digest == self.digest) {
            Some(other) => {
                Err(TokenError::DoubledToken { line, name, other: other.caller.shown().to_owned() })
            }
            None => Ok(()),
        }
    }
}

fn check_strength(line: usize, name: &str, token: &str) -> Result<(), TokenError> {
    let (length, name) = (token.chars().count(), name.to_owned());
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) || length > limits::TOKEN_MOST {
        return Err(TokenError::Unsendable { line, name });
    }
    match length < limits::TOKEN_LEAST {
        true => Err(TokenError::Short { line, name, length }),
        false => Ok(()),
    }
}

impl fmt::Debug for Tokens {
    /// Shows the callers, never a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.known.iter().map(|known| &known.caller)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::Role;

    const SECRET: &str = "3f9c0a77d1e2b4c5";

    #[test]
    fn a_token_has_a_name_and_a_role() {
        let tokens = Tokens::read(&format!(
            "# who\n\noperator alice {SECRET}\n reader  grafana 9b1e5f20c7a84d36\r\n"
        ))
        .unwrap();
        let caller = tokens.caller(SECRET).unwrap();
        assert_eq!((caller.shown(), caller.role), ("alice", Role::Operator));
        assert_eq!(tokens.caller("9b1e5f20c7a84d36").unwrap().role, Role::Reader);
        for wrong in ["", "3f9c0a77d1e2b4c", "3f9c0a77d1e2b4c55", "alice", "3F9C0A77D1E2B4C5"] {
            assert_eq!(tokens.caller(wrong), None);
        }
    }

    /// HTTP-4.
    #[test]
    fn errors_never_contain_the_token() {
        let twice = format!("reader a {SECRET}\nwriter");
        for (text, says) in [
            ("".to_owned(), "no token"),
            ("# nothing".to_owned(), "no token"),
            (format!("operator {SECRET}"), "line 1 of the tokens has 2 words"),
            (format!("\nboss alice {SECRET}"), "line 2 of the tokens does not begin with a role"),
            ("reader alice 3f9c0a7".to_owned(), "has 7 characters"),
            (format!("reader alice ü{SECRET}"), "printable ASCII"),
            (format!("reader {} {SECRET}", "n".repeat(65)), "at most 64"),
            (format!("{twice} a {SECRET}0"), "line 2: the name \"a\" is already used"),
            (format!("{twice} b {SECRET}"), "\"b\" has the same token as \"a\""),
        ] {
            let error = Tokens::read(&text).unwrap_err();
            let (said, shown) = (error.to_string(), format!("{error:?}"));
            assert!(said.contains(says), "{said}");
            assert!(!said.contains("3f9c0a7") && !shown.contains("3f9c0a7"), "{said} {shown}");
        }
    }

    #[test]
    fn tokens_are_not_shown() {
        let shown = format!("{:?}", Tokens::read(&format!("reader alice {SECRET}")).unwrap());
        assert!(shown.contains("alice") && !shown.contains("3f9c"), "{shown}");
    }
}
