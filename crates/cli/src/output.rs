//! Output of commands: data on standard output, as tables or JSON lines; messages on standard
//! error.
//!
//! Every write can fail and returns its error: a reader that closes its end of a pipe ends the
//! command, without a panic as of `println!`. Everything from a store passes through [`plain`] or
//! [`json_line`], so that it cannot contain terminal escape sequences.

mod json_line;
mod plain;
mod table;

use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;

pub(crate) use json_line::json_line;
pub(crate) use plain::{cut, plain};
pub(crate) use table::TableRow;
pub(crate) use tidelock::doctor::display::{ago, ahead, many, quoted};

/// The output of a command.
pub(crate) struct Output {
    to: BufWriter<Box<dyn Write + Send>>,
    color: bool,
    json: bool,
    /// The last headings: a paged list has them once.
    headed: &'static [&'static str],
}

/// The style of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Plain,
    Heading,
    Proven,
    Faint,
    Alarm,
}

/// The result, as JSON.
#[derive(Debug, Serialize)]
struct Done<'a> {
    done: &'a str,
    what: &'a str,
}

impl Output {
    /// Standard output, as text or JSON.
    pub(crate) fn stdout(json: bool) -> Self {
        let stdout = io::stdout();
        let color =
            stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { to: BufWriter::new(Box::new(stdout)), color, json, headed: &[] }
    }

    /// Whether the output is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints a line of text, and flushes it.
    pub(crate) fn line(&mut self, look: Style, text: &str) -> io::Result<()> {
        self.row(look, text)?;
        self.flush()
    }

    /// Prints a value as a line of JSON.
    pub(crate) fn json(&mut self, thing: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(thing).map_err(io::Error::other)?;
        writeln!(self.to, "{}", json_line(&text))
    }

    /// Prints a list, as a table or JSON.
    pub(crate) fn list<T: TableRow>(&mut self, things: &[T]) -> io::Result<()> {
        if self.json {
            return things.iter().try_for_each(|thing| self.json(thing));
        }
        if things.is_empty() {
            return Ok(());
        }
        let mut lines = table::table(things).into_iter();
        let heading = lines.next().unwrap_or_default();
        if self.headed != T::HEADINGS {
            self.row(Style::Heading, &heading)?;
            self.headed = T::HEADINGS;
        }
        lines.try_for_each(|row| self.row(Style::Plain, &row))
    }

    /// Prints a single row without headings.
    pub(crate) fn one<T: TableRow>(&mut self, thing: &T) -> io::Result<()> {
        match self.json {
            true => self.json(thing),
            false => self.row(Style::Plain, &thing.cells().join("  ")),
        }
    }

    /// Prints a result, as a word and a sentence.
    pub(crate) fn done(&mut self, done: &str, what: &str) -> io::Result<()> {
        match self.json {
            true => self.json(&Done { done, what }),
            false => self.line(Style::Plain, what),
        }
    }

    /// Prints a message that is not data.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        // Without standard error, the command continues.
        let _ = writeln!(io::stderr(), "{}", plain(text));
        Ok(())
    }

    /// Prints raw text, such as a completion script.
    pub(crate) fn script(&mut self, text: &[u8]) -> io::Result<()> {
        self.to.write_all(text)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn row(&mut self, look: Style, text: &str) -> io::Result<()> {
        let text = plain(text);
        match look.ansi().filter(|_| self.color) {
            Some(ansi) => writeln!(self.to, "\x1b[{ansi}m{text}\x1b[0m"),
            None => writeln!(self.to, "{text}"),
        }
    }
}

impl Style {
    fn ansi(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Heading => Some("1"),
            Self::Proven => Some("32"),
            Self::Faint => Some("2"),
            Self::Alarm => Some("31"),
        }
    }
}
