//! The connections that read.
//!
//! Questions on one connection are answered in turn. So whoever asks gets one on which as few as
//! possible are before it: a page that takes long, or a connection that does not answer, keeps
//! others waiting only if there is no other.

use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lazy_connection::LazyConnection;

#[derive(Debug)]
pub(crate) struct Readers {
    desks: Vec<ReaderSlot>,
    /// Where to begin to look, so that those who are equally good take turns.
    next: AtomicUsize,
}

#[derive(Debug)]
struct ReaderSlot {
    link: LazyConnection,
    /// How many are asking.
    asking: AtomicUsize,
}

/// A connection to ask; it counts as taken until this is dropped.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    desk: &'a ReaderSlot,
}

impl Readers {
    pub(crate) fn new(links: impl Iterator<Item = LazyConnection>) -> Self {
        let desks = links.map(|link| ReaderSlot { link, asking: AtomicUsize::new(0) }).collect();
        Self { desks, next: AtomicUsize::new(0) }
    }

    pub(crate) fn reader(&self) -> Reader<'_> {
        let first = self.next.fetch_add(1, Ordering::Relaxed) % self.desks.len();
        let (before, from) = self.desks.split_at(first);
        let quickest = from.iter().chain(before).min_by_key(|desk| desk.wait());
        Reader::at(quickest.expect("there is at least one"))
    }

    pub(crate) fn links(&self) -> impl Iterator<Item = &LazyConnection> {
        self.desks.iter().map(|desk| &desk.link)
    }
}

impl ReaderSlot {
    /// The more, the longer it will take. Those who have given up are not counted, but what they
    /// asked is still in the way.
    fn wait(&self) -> (bool, usize) {
        (self.link.is_behind(), self.asking.load(Ordering::Relaxed))
    }
}

impl<'a> Reader<'a> {
    fn at(desk: &'a ReaderSlot) -> Self {
        desk.asking.fetch_add(1, Ordering::Relaxed);
        Self { desk }
    }
}

impl Deref for Reader<'_> {
    type Target = LazyConnection;

    fn deref(&self) -> &LazyConnection {
        &self.desk.link
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.desk.asking.fetch_sub(1, Ordering::Relaxed);
    }
}
