//! A file that a stream's events go to, one on a line.
//!
//! The same events can come a second time, after a crash: those that are in the file already are
//! not written again, and a line that was cut short is written anew.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use tidelock::{StoredEvent, StreamName, Version};

use crate::output::json_line;
use crate::progress::Progress;

/// How every line begins.
const BEGINNING: &[u8] = b"{\"id\":\"";

/// The file, open at its end.
#[derive(Debug, Clone)]
pub(super) struct ArchiveFile {
    file: Arc<Mutex<Kept>>,
}

#[derive(Debug)]
struct Kept {
    file: File,
    /// The last event of the stream that is in it.
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

    /// The archive that puts events here, and answers when they are safe.
    pub(super) fn archive(
        self,
        progress: Progress,
    ) -> impl Fn(Vec<StoredEvent>) -> std::future::Ready<io::Result<()>> + Send + Sync + 'static
    {
        move |events| {
            let mut kept = self.file.lock().unwrap_or_else(PoisonError::into_inner);
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

/// The last event of this stream in the file, and how many bytes of it are whole lines of events.
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
                format!("it is there, and has a line that is no event ({e}); name another file");
            io::Error::new(io::ErrorKind::InvalidData, what)
        })?;
        if event.stream == *stream {
            last = last.max(Some(event.version));
        }
        whole += read;
    }
}

/// Whether this is the beginning of an event's line, and no more: it was being written when the
/// process died.
fn is_cut_short(line: &[u8]) -> bool {
    let beginning = BEGINNING.len().min(line.len());
    !line.ends_with(b"\n") && line[..beginning] == BEGINNING[..beginning]
}
