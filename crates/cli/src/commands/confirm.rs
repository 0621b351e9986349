//! Asks for confirmation before an action that cannot be undone.

use std::io::{self, BufRead, IsTerminal, Write};

use crate::failure::{Failure, Result};
use crate::output::plain;

/// Continues if the action is confirmed, now or by `--yes`.
pub(crate) fn confirm(what: &str, yes: bool) -> Result<()> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Failure::usage(
            format!("this needs confirmation, and there is no terminal to ask: {what}"),
            "--dry-run to see what would be done, then --yes",
        ));
    }
    match ask(what)?.trim().to_lowercase().as_str() {
        "y" | "yes" => Ok(()),
        _ => Err(Failure::refused(
            "nothing was done",
            "the same command with --yes, or confirm with y",
        )),
    }
}

fn ask(what: &str) -> io::Result<String> {
    write!(io::stderr(), "{} Continue? [y/N] ", plain(what))?;
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer)
}
