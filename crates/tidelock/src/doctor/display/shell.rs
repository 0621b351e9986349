//! Shell quoting, so that a printed command can be copied.

use std::fmt::Write;

/// Quotes a word for a shell, if needed.
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| {
        c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | '@' | ',' | '=')
    };
    match word {
        "" => "''".to_owned(),
        word if word.chars().all(is_plain) => word.to_owned(),
        word if word.chars().any(is_tricky) => escaped(word),
        word => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Whether a character acts instead of being visible: terminal controls, line and direction
/// controls, and zero-width characters.
pub fn is_tricky(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Escapes invisible characters in `$'...'`, the only quotes in which a shell reads escapes.
fn escaped(word: &str) -> String {
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
    fn a_shell_reads_back_the_original_word() {
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
