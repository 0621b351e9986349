//! The order in which things were known, and how far the function has come along it.

use crate::runs::replay::{Mark, Record, ReplayState};

/// What has become of an operation in this turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Live {
    /// The function asked for it.
    pub(crate) asked: bool,
    /// The function let go of it.
    pub(crate) gone: bool,
    /// Its end was handed over.
    pub(crate) delivered: bool,
    /// Something of it is recorded, or will be.
    pub(crate) recorded: bool,
    /// Where in the order its end is, and what must be durable before it is handed over.
    pub(crate) end: Option<(usize, u64)>,
    /// Its end was passed over: the function had put it aside.
    pub(crate) late: bool,
}

/// The order, and the place in it.
#[derive(Debug, Default)]
pub(crate) struct ReplayCursor {
    pub(crate) live: Vec<Live>,
    /// Everything before this has been asked for and handed over.
    cursor: usize,
    /// What was known when the turn began ends here.
    loaded: usize,
}

impl ReplayCursor {
    pub(crate) fn of(past: &ReplayState) -> Self {
        let recorded = Live { recorded: true, ..Live::default() };
        let mut order =
            Self { live: vec![recorded; past.records.len()], cursor: 0, loaded: past.order.len() };
        for (at, mark) in past.order.iter().enumerate().filter(|(_, mark)| mark.is_end) {
            order.live[mark.record].end = Some((at, 0));
        }
        order.advance(past);
        order
    }

    /// Whether the function has not yet come as far as it had before.
    pub(crate) fn is_replay(&self) -> bool {
        self.cursor < self.loaded
    }

    /// Whether the end of some operation has not been handed over.
    pub(crate) fn is_behind(&self, past: &ReplayState) -> bool {
        self.cursor < past.order.len()
    }

    /// Moves on; gives the operation whose end is next.
    pub(crate) fn advance(&mut self, past: &ReplayState) -> Option<usize> {
        while let Some(mark) = past.order.get(self.cursor) {
            if !self.is_past(past, *mark) {
                return mark.is_end.then_some(mark.record);
            }
            self.cursor += 1;
        }
        None
    }

    fn is_past(&self, past: &ReplayState, mark: Mark) -> bool {
        let live = &self.live[mark.record];
        let excused = live.gone || past.records[mark.record].dropped;
        excused || if mark.is_end { live.delivered || live.late } else { live.asked }
    }

    /// Whether the end of this operation is what is next.
    pub(crate) fn is_next(&self, at: usize) -> bool {
        let live = &self.live[at];
        live.end.is_some_and(|(mark, _)| live.late || mark == self.cursor)
    }

    /// What the history has next.
    pub(crate) fn next<'p>(&self, past: &'p ReplayState) -> Option<&'p Record> {
        past.order.get(self.cursor).map(|mark| &past.records[mark.record])
    }

    /// Passes over an end that the function could have been handed and did not come for: it has put
    /// the operation aside. Says whether there was one.
    pub(crate) fn pass_over(&mut self, past: &ReplayState) -> bool {
        let Some(mark) = past.order.get(self.cursor).filter(|mark| mark.is_end) else {
            return false;
        };
        let live = &mut self.live[mark.record];
        let put_aside = live.asked && !live.late;
        live.late |= put_aside;
        put_aside
    }

    /// An operation that was not there before.
    pub(crate) fn begin(&mut self) {
        self.live.push(Live { asked: true, ..Live::default() });
    }
}
