//! Standard output, a line at a time, with colour where a person can see it.
//!
//! Every write can fail and says so: a reader that closes its end of the pipe stops the command, it does not make
//! it panic as `println!` would.

use std::io::{self, IsTerminal, Write};

/// Where a command tells what happens.
pub(crate) struct Output {
    to: Box<dyn Write + Send>,
    colour: bool,
}

/// What a line is, and so how it looks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Look {
    Plain,
    Heading,
    Proven,
    Faint,
}

impl Output {
    pub(crate) fn stdout() -> Self {
        let stdout = io::stdout();
        let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { to: Box::new(stdout), colour }
    }

    /// One line, and at once: a story told in bursts is no story.
    pub(crate) fn line(&mut self, look: Look, text: &str) -> io::Result<()> {
        match look.ansi().filter(|_| self.colour) {
            Some(ansi) => writeln!(self.to, "\x1b[{ansi}m{text}\x1b[0m")?,
            None => writeln!(self.to, "{text}")?,
        }
        self.to.flush()
    }
}

impl Look {
    fn ansi(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Heading => Some("1"),
            Self::Proven => Some("32"),
            Self::Faint => Some("2"),
        }
    }
}
