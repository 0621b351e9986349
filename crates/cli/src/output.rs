//! What a command says: data on standard output, as tables for people or as a line of JSON per
//! thing; messages on standard error.
//!
//! Every write can fail and says so: a reader that closes its end of the pipe stops the command, it
//! does not make it panic as `println!` would. Whatever comes from a store passes through [`plain`]
//! or [`json_line`], here and nowhere else, so that nothing in it can play tricks on a terminal.

mod json_line;
mod plain;
mod table;

use std::io::{self, BufWriter, IsTerminal, Write};

use serde::Serialize;

pub(crate) use json_line::json_line;
pub(crate) use plain::{cut, plain};
pub(crate) use table::{Listed, Table};
pub(crate) use tidelock::doctor::display::{ago, ahead, many, quoted};

/// Where a command tells what happens.
pub(crate) struct Output {
    to: BufWriter<Box<dyn Write + Send>>,
    color: bool,
    json: bool,
    /// The headings that were shown last: a list that comes page by page has them once.
    headed: &'static [&'static str],
}

/// What a line is, and so how it looks.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Plain,
    Heading,
    Proven,
    Faint,
    Alarm,
}

/// What was done, for machines.
#[derive(Debug, Serialize)]
struct Done<'a> {
    done: &'a str,
    what: &'a str,
}

impl Output {
    /// Standard output, for people or for machines.
    pub(crate) fn stdout(json: bool) -> Self {
        let stdout = io::stdout();
        let color =
            stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self { to: BufWriter::new(Box::new(stdout)), color, json, headed: &[] }
    }

    /// Whether machines read it.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// One line for people, and at once: a story told in bursts is no story.
    pub(crate) fn line(&mut self, look: Style, text: &str) -> io::Result<()> {
        self.row(look, text)?;
        self.flush()
    }

    /// One thing for machines, on a line of its own.
    pub(crate) fn json(&mut self, thing: &impl Serialize) -> io::Result<()> {
        let text = serde_json::to_string(thing).map_err(io::Error::other)?;
        writeln!(self.to, "{}", json_line(&text))
    }

    /// Things, in the form that was asked for.
    pub(crate) fn list<T: Listed>(&mut self, things: &[T]) -> io::Result<()> {
        if self.json {
            return things.iter().try_for_each(|thing| self.json(thing));
        }
        if things.is_empty() {
            return Ok(());
        }
        let table = Table::of(things);
        if self.headed != T::HEADINGS {
            self.row(Style::Heading, &table.heading())?;
            self.headed = T::HEADINGS;
        }
        table.rows().try_for_each(|row| self.row(Style::Plain, &row))
    }

    /// One thing that comes by itself: a line without a heading.
    pub(crate) fn one<T: Listed>(&mut self, thing: &T) -> io::Result<()> {
        match self.json {
            true => self.json(thing),
            false => self.row(Style::Plain, &thing.cells().join("  ")),
        }
    }

    /// That something was done, in a word and in a sentence.
    pub(crate) fn done(&mut self, done: &str, what: &str) -> io::Result<()> {
        match self.json {
            true => self.json(&Done { done, what }),
            false => self.line(Style::Plain, what),
        }
    }

    /// Something that people should know and that is no data.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        self.flush()?;
        // With nobody to read it, the command goes on.
        let _ = writeln!(io::stderr(), "{}", plain(text));
        Ok(())
    }

    /// Raw text that was made for this, such as a completion script.
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
