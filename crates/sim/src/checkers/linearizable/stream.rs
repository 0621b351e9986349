//! The sequential stream: a version, open or closed. Its content is checked by the
//! [numbers](super::super::numbers).

use super::Object;
use crate::history::Expected;

/// An operation on a stream, with its answer.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum StreamOp {
    /// A commit that landed on the stream, or may have.
    Commit(StreamCommit),
    /// The stream was found so.
    Found { version: Option<u64>, closed: bool },
    /// The stream was found to be as expected, and open if it was to be appended to.
    Met { expected: Expected, open: bool },
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(in super::super) struct StreamCommit {
    pub(in super::super) expected: Vec<Expected>,
    /// The number of events appended; none without an append.
    pub(in super::super) append: Option<u64>,
    pub(in super::super) close: bool,
    /// The version that was answered.
    pub(in super::super) version: Option<u64>,
    /// The last version that a trim removes, and whether the stream is open afterwards.
    pub(in super::super) trim: Option<(u64, bool)>,
    /// The store forgets the stream if it is empty and stays so.
    pub(in super::super) forget: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct Stream {
    /// Its version; 0 if there is none.
    version: u64,
    /// The version is this one or a higher one.
    at_least: bool,
    closed: bool,
    /// It may be forgotten by now.
    may_be_forgotten: bool,
}

/// A stream; before the first append there is none.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct StreamObject {
    /// Streams of its category are forgotten: it may begin above their versions.
    pub(in super::super) begins_anywhere: bool,
}

impl Stream {
    fn is_at(&self, version: u64) -> bool {
        self.version == version || self.at_least && version > self.version
    }

    fn meets(&self, expected: Expected, there: bool) -> bool {
        match expected {
            Expected::Any => true,
            Expected::Absent => !there,
            Expected::Exists => there,
            Expected::Exactly(version) => there && self.is_at(version),
        }
    }

    /// Whether it can be there, and whether absent.
    fn presence(&self) -> impl Iterator<Item = bool> {
        let there = self.version > 0;
        let absent = !there || self.may_be_forgotten;
        [there.then_some(true), absent.then_some(false)].into_iter().flatten()
    }
}

impl StreamObject {
    fn commit(self, from: &Stream, commit: &StreamCommit, there: bool) -> Option<Stream> {
        let reopens = commit.trim.is_some_and(|(_, reopens)| reopens);
        let was_closed = there && from.closed;
        let is_refused = commit.append.is_some() && was_closed && !reopens;
        if is_refused || !commit.expected.iter().all(|expected| from.meets(*expected, there)) {
            return None;
        }
        let (version, at_least) = self.version_after(from, commit, there)?;
        let closes = was_closed || commit.close;
        let trims = commit.trim.is_some_and(|(through, _)| !closes || through > version);
        if version == 0 && commit.close || trims && !at_least {
            return None;
        }
        let closed = if was_closed { commit.close || !reopens } else { commit.close && !reopens };
        let stays_empty = commit.append.unwrap_or(0) == 0 && commit.trim.is_none();
        let may_be_forgotten = commit.forget || there && from.may_be_forgotten && stays_empty;
        Some(Stream { version, at_least, closed, may_be_forgotten })
    }

    fn version_after(
        self,
        from: &Stream,
        commit: &StreamCommit,
        there: bool,
    ) -> Option<(u64, bool)> {
        let count = commit.append.unwrap_or(0);
        let Some(version) = commit.version else {
            let anywhere = !there && count > 0 && self.begins_anywhere;
            return Some((from.version + count, from.at_least || anywhere));
        };
        let base = version.checked_sub(count)?;
        let fits = if there { from.is_at(base) } else { base == 0 || self.begins_anywhere };
        fits.then_some((version, false))
    }
}

impl Object for StreamObject {
    type Op = StreamOp;
    type State = Stream;

    fn initial(&self) -> Stream {
        Stream { version: 0, at_least: false, closed: false, may_be_forgotten: false }
    }

    fn step(&self, state: &Stream, op: &StreamOp, next: &mut Vec<Stream>) {
        match op {
            StreamOp::Commit(commit) => {
                next.extend(state.presence().filter_map(|there| self.commit(state, commit, there)));
            }
            StreamOp::Found { version: None, .. } => {
                next.extend(state.presence().any(|there| !there).then(|| state.clone()));
            }
            StreamOp::Found { version: Some(version), closed } => {
                if state.version > 0 && state.is_at(*version) && state.closed == *closed {
                    next.push(Stream { version: *version, at_least: false, ..state.clone() });
                }
            }
            StreamOp::Met { expected, open } => {
                let met =
                    |there| state.meets(*expected, there) && !(*open && there && state.closed);
                next.extend(state.presence().any(met).then(|| state.clone()));
            }
        }
    }

    fn is_read(&self, op: &StreamOp) -> bool {
        match op {
            StreamOp::Commit(StreamCommit { append, close, trim, forget, .. }) => {
                append.is_none() && !close && trim.is_none() && !forget
            }
            StreamOp::Found { .. } | StreamOp::Met { .. } => true,
        }
    }

    fn is_too_late(&self, state: &Stream, op: &StreamOp) -> bool {
        match op {
            StreamOp::Commit(StreamCommit { version: Some(version), append, .. }) => {
                state.version > version.saturating_sub(append.unwrap_or(0))
            }
            StreamOp::Found { version: Some(version), .. } => state.version > *version,
            _ => false,
        }
    }
}
