//! JSON on one line, without control characters.
//!
//! A store keeps JSON as the text that it was given: possibly with line breaks between tokens, and
//! with anything but control characters inside strings. Here line breaks become spaces, and unsafe
//! characters in strings are escaped.

use std::borrow::Cow;
use std::fmt::Write;

use tidelock::doctor::display::is_tricky;

/// The same JSON value on one line.
pub(crate) fn json_line(json: &str) -> Cow<'_, str> {
    if !json.chars().any(is_tricky) {
        return Cow::Borrowed(json);
    }
    let mut line = String::with_capacity(json.len() + 16);
    let (mut inside, mut escaped) = (false, false);
    for c in json.chars() {
        match c {
            c if !inside && c.is_ascii_whitespace() => line.push(' '),
            c if is_tricky(c) => escape(&mut line, c),
            c => line.push(c),
        }
        match c {
            '"' if !escaped => inside = !inside,
            _ => {}
        }
        escaped = inside && c == '\\' && !escaped;
    }
    Cow::Owned(line)
}

fn escape(line: &mut String, c: char) {
    for unit in c.encode_utf16(&mut [0; 2]) {
        // Writing to a string does not fail.
        let _ = write!(line, "\\u{unit:04x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_one_line_and_says_the_same() {
        let json =
            "{\n  \"a\u{202e}\": [1.50,\r\n\t\"\\\"\u{7f}\u{e0041}\\\\\"],\n \"b\": \"\\n\" }";
        let line = json_line(json);
        assert!(!line.chars().any(is_tricky), "{line}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&line), value(json));
        assert!(line.contains("1.50"), "numbers stay as they are written: {line}");
        assert_eq!(json_line(&line), line);
    }
}
