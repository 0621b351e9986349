//! Words as a shell reads them, so that a command which is shown can be copied.

use std::fmt::Write;

/// The word, quoted if it must be.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@' | ',' | '=')
    };
    match word {
        "" => "''".to_owned(),
        word if word.chars().all(is_plain) => word.to_owned(),
        word if word.chars().any(is_tricky) => spelled(word),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Whether a character does something instead of being seen: controls of the terminal, of the
/// direction of writing and of lines, and what has no width at all.
pub fn is_tricky(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// With what cannot be shown spelled out, in the one kind of quotes in which shells read that.
fn spelled(word: &str) -> String {
    let mut quoted = String::from("$'");
    for c in word.chars() {
        match c {
            '\'' | '\\' => drop(write!(quoted, "\\{c}")),
            c if is_tricky(c) => drop(write!(quoted, "\\U{:08x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "'"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_meant() {
        for word in [
            "order-7",
            "",
            "two words",
            "it's",
            "$(reboot)",
            "`x`;&|<>",
            "~links/a",
            "a\u{202e}b'\\c",
        ] {
            let read = std::process::Command::new("bash")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .env("LC_ALL", "C.UTF-8")
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(read.stdout).unwrap(), word, "{}", quoted(word));
        }
    }
}
