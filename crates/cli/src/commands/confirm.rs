//! Asks before something is done that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::Failure;
use crate::output::plain;

/// Goes on if the person says yes, or has said so before.
pub(crate) fn confirm(what: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(
            format!("this needs a yes, and nobody is there to give it: {what}"),
            "--dry-run to see what would be done, then --yes",
        ));
    }
    match ask(what)?.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::refused(
            "nothing was done",
            "the same command with --yes, or an answer of yes",
        )),
    }
}

fn ask(what: &str) -> io::Result<String> {
    write!(io::stderr(), "{} Go on? [y/N] ", plain(what))?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer)
}
