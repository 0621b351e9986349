//! Writes lines, and computes their checksum.

use std::io::{self, Write};

use sha2::{Digest, Sha256};

use super::line::{End, Line, Totals};
use crate::output::json_line;

/// Writes lines.
pub(crate) struct Writer<W> {
    to: W,
    sum: Sha256,
    totals: Totals,
}

impl<W: Write> Writer<W> {
    pub(crate) fn new(to: W) -> Self {
        Self { to, sum: Sha256::new(), totals: Totals::default() }
    }

    pub(super) fn line(&mut self, line: &Line) -> io::Result<()> {
        self.totals.count(line);
        let text = text(line)?;
        self.sum.update(text.as_bytes());
        self.to.write_all(text.as_bytes())
    }

    /// The number of events written.
    pub(super) fn events(&self) -> u64 {
        self.totals.events
    }

    /// Writes the last line; returns the writer and the totals.
    pub(super) fn end(mut self, settled: bool) -> io::Result<(W, Totals)> {
        let checksum = hex(&self.sum.clone().finalize());
        let end = End { totals: self.totals, checksum, settled };
        self.to.write_all(text(&Line::End(end))?.as_bytes())?;
        self.to.flush()?;
        Ok((self.to, self.totals))
    }
}

fn text(line: &Line) -> io::Result<String> {
    let text = serde_json::to_string(line).map_err(io::Error::other)?;
    Ok(format!("{}\n", json_line(&text)))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
