//! Replay cursor: the recorded order, and how far the function has come.

use crate::runs::replay::{Mark, Record, ReplayState};

/// The state of an operation in this turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpState {
    /// The function requested it.
    pub(crate) requested: bool,
    /// The function dropped it.
    pub(crate) abandoned: bool,
    /// Its end was delivered.
    pub(crate) delivered: bool,
    /// It is recorded, or will be.
    pub(crate) recorded: bool,
    /// The place of its end in the order, and the entry number that must be durable before
    /// delivery.
    pub(crate) end: Option<(usize, u64)>,
    /// Its end was skipped: the function had set it aside.
    pub(crate) skipped: bool,
}

/// The order and the current place in it.
#[derive(Debug, Default)]
pub(crate) struct ReplayCursor {
    pub(crate) live: Vec<OpState>,
    /// Everything before this was requested and delivered.
    position: usize,
    /// The end of the order as it was loaded.
    loaded: usize,
}

impl ReplayCursor {
    pub(crate) fn of(past: &ReplayState) -> Self {
        let recorded = OpState { recorded: true, ..OpState::default() };
        let mut cursor = Self {
            live: vec![recorded; past.records.len()],
            position: 0,
            loaded: past.order.len(),
        };
        for (at, mark) in past.order.iter().enumerate().filter(|(_, mark)| mark.is_end) {
            cursor.live[mark.record].end = Some((at, 0));
        }
        cursor.advance(past);
        cursor
    }

    /// Whether replay has not consumed the loaded history.
    pub(crate) fn is_replay(&self) -> bool {
        self.position < self.loaded
    }

    /// Whether an operation's end is not delivered.
    pub(crate) fn is_behind(&self, past: &ReplayState) -> bool {
        self.position < past.order.len()
    }

    /// Advances, and returns the operation whose end is next.
    pub(crate) fn advance(&mut self, past: &ReplayState) -> Option<usize> {
        while let Some(mark) = past.order.get(self.position) {
            if !self.is_past(past, *mark) {
                return mark.is_end.then_some(mark.record);
            }
            self.position += 1;
        }
        None
    }

    fn is_past(&self, past: &ReplayState, mark: Mark) -> bool {
        let live = &self.live[mark.record];
        let is_dropped = live.abandoned || past.records[mark.record].dropped;
        is_dropped || if mark.is_end { live.delivered || live.skipped } else { live.requested }
    }

    /// Whether the end of this operation is next.
    pub(crate) fn is_next(&self, at: usize) -> bool {
        let live = &self.live[at];
        live.end.is_some_and(|(mark, _)| live.skipped || mark == self.position)
    }

    /// The next recorded operation.
    pub(crate) fn next<'p>(&self, past: &'p ReplayState) -> Option<&'p Record> {
        past.order.get(self.position).map(|mark| &past.records[mark.record])
    }

    /// Skips an end that could be delivered and that the function does not poll: it has set the
    /// operation aside. Returns whether there was one.
    pub(crate) fn skip_end(&mut self, past: &ReplayState) -> bool {
        let Some(mark) = past.order.get(self.position).filter(|mark| mark.is_end) else {
            return false;
        };
        let live = &mut self.live[mark.record];
        let is_set_aside = live.requested && !live.skipped;
        live.skipped |= is_set_aside;
        is_set_aside
    }

    /// Adds a new operation.
    pub(crate) fn begin(&mut self) {
        self.live.push(OpState { requested: true, ..OpState::default() });
    }
}
