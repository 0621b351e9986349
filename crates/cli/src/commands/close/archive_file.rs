//! The archive file of a stream, one event per line.
//!
//! After a crash the same events can be archived again: events that are in the file already are
//! skipped, and a truncated last line is rewritten.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tidelock::store::{StoredEvent, StreamName, Version};

use crate::output::json_line;
use crate::progress::Progress;

/// The prefix of every line.
const BEGINNING: &[u8] = b"{\"id\":\"";

/// The file, open at its end.
#[derive(Debug, Clone)]
pub(super) struct ArchiveFile {
    file: Arc<Mutex<Kept>>,
}

#[derive(Debug)]
struct Kept {
    file: File,
    /// The last event of the stream in the file.
    last: Option<Version>,
}

impl ArchiveFile {
    pub(super) fn open(path: &Path, stream: &StreamName) -> io::Result<Self> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let (last, whole) = look(&file, stream)?;
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file: Arc::new(Mutex::new(Kept { file, last })) })
    }

    /// The archive function, which returns once the events are durable.
    pub(super) fn archive(
        self,
        progress: Progress,
    ) -> impl Fn(Vec<StoredEvent>) -> std::future::Ready<io::Result<()>> + Send + Sync + 'static
    {
        move |events| {
            let mut kept = self.file.lock();
            let taken = kept.take(&events);
            progress.moved(events.len() as u64);
            std::future::ready(taken)
        }
    }
}

impl Kept {
    fn take(&mut self, events: &[StoredEvent]) -> io::Result<()> {
        let mut text = String::new();
        for event in events.iter().filter(|event| self.last.is_none_or(|last| event.version > last))
        {
            text += &json_line(&serde_json::to_string(event).map_err(io::Error::other)?);
            text.push('\n');
        }
        self.file.write_all(text.as_bytes())?;
        self.file.sync_all()?;
        self.last = events.last().map(|event| event.version).max(self.last);
        Ok(())
    }
}

/// The last event of this stream in the file, and the length of its complete lines in bytes.
fn look(file: &File, stream: &StreamName) -> io::Result<(Option<Version>, u64)> {
    let (mut lines, mut line, mut last, mut whole) = (BufReader::new(file), Vec::new(), None, 0);
    loop {
        line.clear();
        let read = lines.read_until(b'\n', &mut line)? as u64;
        if read == 0 || is_cut_short(&line) {
            return Ok((last, whole));
        }
        let event: StoredEvent = serde_json::from_slice(&line).map_err(|e| {
            let what =
                format!("it exists, and has a line that is not an event ({e}); use another file");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        if event.stream == *stream {
            last = last.max(Some(event.version));
        }
        whole += read;
    }
}

/// Whether this is a truncated line of an event: the process died while writing it.
fn is_cut_short(line: &[u8]) -> bool {
    let beginning = BEGINNING.len().min(line.len());
    !line.ends_with(b"\n") && line[..beginning] == BEGINNING[..beginning]
}
