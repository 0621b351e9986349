//! Reads lines, and verifies their checksum.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use sha2::{Digest, Sha256};

use super::line::{End, FORMAT, Header, Line, Totals};
use super::source::Source;
use super::writer::hex;
use crate::failure::{Failure, Result};

/// The maximum bytes of a line: the largest payload, fully escaped.
const LINE: u64 = 16 << 20;

/// A file that an export wrote.
pub(crate) struct Reader<'a> {
    source: &'a Source,
    lines: BufReader<File>,
    /// The number of the last line read, from 1.
    number: u64,
}

/// The contents of a complete file.
pub(super) struct Contents {
    pub(super) header: Header,
    pub(super) end: End,
    pub(super) lines: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn open(source: &'a Source) -> Result<Self> {
        Ok(Self { source, lines: BufReader::new(source.open()?), number: 0 })
    }

    /// Reads all of it, and refuses an incomplete file before anything is done with it.
    pub(super) fn check(source: &'a Source) -> Result<Contents> {
        let (mut reader, mut sum, mut totals) =
            (Self::open(source)?, Sha256::new(), Totals::default());
        let header = reader.header(&mut sum)?;
        while let Some(text) = reader.text()? {
            let line = reader.parse(&text)?;
            if let Line::End(end) = line {
                let found = hex(&sum.finalize());
                reader.check_end(&end, totals, &found)?;
                return Ok(Contents { header, end, lines: reader.number });
            }
            totals.count(&line);
            sum.update(text.as_bytes());
        }
        Err(reader.damaged("it ends before its last line: the export was truncated"))
    }

    /// The next line, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Line)>> {
        let Some(text) = self.text()? else { return Ok(None) };
        Ok(Some((self.number, self.parse(&text)?)))
    }

    fn header(&mut self, sum: &mut Sha256) -> Result<Header> {
        let text = self.text()?.ok_or_else(|| self.damaged("it is empty"))?;
        sum.update(text.as_bytes());
        match serde_json::from_str(&text) {
            Ok(Line::Export(header)) if header.format <= FORMAT => Ok(header),
            Ok(Line::Export(header)) => Err(Failure::refused(
                format!(
                    "{:?} has format {}; this program knows {FORMAT}",
                    self.source.name(),
                    header.format
                ),
                "a newer tidelock",
            )),
            _ => Err(self.damaged("its first line is not that of an export")),
        }
    }

    fn check_end(&mut self, end: &End, totals: Totals, found: &str) -> Result<()> {
        if end.checksum != found {
            return Err(
                self.damaged("its checksum does not match: it was changed since it was written")
            );
        }
        if end.totals != totals {
            return Err(
                self.damaged("its numbers of events, records and items do not match its last line")
            );
        }
        match self.text()? {
            None => Ok(()),
            Some(_) => Err(self.damaged("it continues after its last line")),
        }
    }

    fn text(&mut self) -> Result<Option<String>> {
        let mut text = String::new();
        let read = self.lines.by_ref().take(LINE).read_line(&mut text);
        let read = read.map_err(|e| self.source.unreadable(&e))?;
        self.number += u64::from(read > 0);
        match read {
            0 => Ok(None),
            _ if text.ends_with('\n') => Ok(Some(text)),
            _ => Err(self.damaged("it ends in the middle of a line, or has one that is too long")),
        }
    }

    fn parse(&self, text: &str) -> Result<Line> {
        serde_json::from_str(text).map_err(|e| self.damaged(&format!("line {}: {e}", self.number)))
    }

    fn damaged(&self, what: &str) -> Failure {
        Failure::failed(
            format!("{:?} cannot be imported: {what}", self.source.name()),
            "tidelock export again, from the store that it came from",
        )
    }
}
