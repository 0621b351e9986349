//! Escapes text so that it is safe on a terminal.

use std::borrow::Cow;
use std::fmt::Write;

use tidelock::doctor::display::is_tricky;

/// Escapes unsafe characters.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_tricky) {
        return Cow::Borrowed(text);
    }
    let mut spelled = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => spelled.push_str("\\n"),
            '\t' => spelled.push_str("\\t"),
            '\r' => spelled.push_str("\\r"),
            c if is_tricky(c) => drop(write!(spelled, "\\u{{{:x}}}", u32::from(c))),
            c => spelled.push(c),
        }
    }
    Cow::Owned(spelled)
}

/// Truncates a text to so many characters.
pub(crate) fn cut(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_spelled_out() {
        assert_eq!(plain("\x1b[31mred\x07"), "\\u{1b}[31mred\\u{7}");
        assert_eq!(plain("a\u{9b}31m"), "a\\u{9b}31m");
        assert_eq!(plain("one\ntwo\r\tthree"), "one\\ntwo\\r\\tthree");
    }

    #[test]
    fn what_turns_writing_round_is_spelled_out() {
        assert_eq!(plain("user\u{202e}gpj.exe"), "user\\u{202e}gpj.exe");
        for c in "\u{200e}\u{200f}\u{2066}\u{2069}\u{61c}\u{2028}\u{200b}\u{feff}\u{e0041}".chars()
        {
            assert!(is_tricky(c), "{c:?}");
        }
    }

    #[test]
    fn everything_else_stays_as_it_is() {
        let text = "Grüße, 世界 👋 \"quoted\" \\ ~links/a";
        assert!(matches!(plain(text), Cow::Borrowed(same) if same == text));
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(cut("世界世界", 2), "世界…");
        assert_eq!(cut("世界", 2), "世界");
    }
}
