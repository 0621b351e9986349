//! What becomes of operations: asked for, recorded, ended, and let go of.

use tidelock_store::NewEvent;

use super::{Exit, State};
use crate::runs::StepName;
use crate::runs::history::{Dropped, Entry};
use crate::runs::replay::{End, Kind, Mark, Record};

impl State {
    pub(super) fn ask(&mut self, name: &StepName, kind: Kind) -> Option<usize> {
        let Some(at) = self.past.names.get(name).copied() else {
            return Some(self.begin(name, kind));
        };
        let recorded = self.past.records[at].kind;
        if self.order.live[at].asked {
            self.leave(Exit::Fail(used_twice(name)));
            return None;
        }
        if recorded != kind {
            self.held = Some(format!("{kind} {:?}", name.as_str()));
            let misfit = format!(
                "the code does not fit the history: expected {recorded} {0:?} (recorded), found {kind} {0:?}",
                name.as_str()
            );
            self.leave(Exit::Park(misfit));
            return None;
        }
        self.order.live[at].asked = true;
        self.nudge();
        Some(at)
    }

    fn begin(&mut self, name: &StepName, kind: Kind) -> usize {
        let at = self.past.records.len();
        self.past.records.push(Record::new(name, kind));
        self.past.names.insert(name.clone(), at);
        self.order.begin();
        at
    }

    /// Puts an entry in the queue, and the end that it is in its place in the order.
    pub(super) fn record(&mut self, at: usize, entry: NewEvent, end: Option<(End, bool)>) {
        let number = self.queue.push(entry);
        match end {
            Some((end, durably)) => {
                let number = if durably { number } else { 0 };
                self.queue.want(number);
                self.end(at, end, number);
            }
            None => self.open(at),
        }
    }

    /// This operation's end comes next in the order.
    pub(crate) fn end(&mut self, at: usize, end: End, number: u64) {
        self.past.records[at].end = Some(end);
        self.order.live[at].recorded = true;
        self.order.live[at].end = Some((self.past.order.len(), number));
        self.past.order.push(Mark { record: at, is_end: true });
        self.nudge();
    }

    /// It did not end after all; its place in the order means nothing.
    pub(crate) fn unend(&mut self, at: usize) {
        self.past.records[at].end = None;
        if let Some((mark, _)) = self.order.live[at].end.take() {
            self.past.order[mark].is_end = false;
        }
        self.nudge();
    }

    /// Something of this operation is recorded.
    pub(crate) fn open(&mut self, at: usize) {
        if !self.order.live[at].recorded {
            self.order.live[at].recorded = true;
            self.past.order.push(Mark { record: at, is_end: false });
            self.nudge();
        }
    }

    /// What was recorded stays recorded, with a note that nobody waits for it; what was not, was
    /// never asked for.
    pub(super) fn let_go(&mut self, at: usize) {
        self.wakers.remove(&at);
        self.outstanding.remove(&at);
        self.children.remove(&at);
        self.queue.landings.retain(|landing| landing.at != at);
        let live = &mut self.order.live[at];
        if self.closing || live.delivered {
            return;
        }
        live.gone = true;
        let name = self.past.records[at].name.clone();
        if !live.recorded {
            self.past.names.remove(&name);
        } else if !self.past.records[at].dropped
            && let Ok(entry) = Entry::from(Dropped { name }).encode()
        {
            self.queue.push(entry);
        }
        self.nudge();
    }
}

/// Why a name cannot be used again.
pub(crate) fn used_twice(name: &StepName) -> String {
    format!(
        "the name {:?} is used twice in one run; give every step, sleep, wait, child, value and race a name of its own, in a loop \
         with the number of the round",
        name.as_str()
    )
}
