//! State changes of operations: requested, recorded, ended, and dropped.

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
        if self.cursor.live[at].requested {
            self.leave(Exit::Fail(used_twice(name)));
            return None;
        }
        if recorded != kind {
            self.held = Some(format!("{kind} {:?}", name.as_str()));
            let non_determinism = format!(
                "non-determinism: the code does not fit the history: expected {recorded} {0:?} (recorded), found {kind} {0:?}",
                name.as_str()
            );
            self.leave(Exit::Park(non_determinism));
            return None;
        }
        self.cursor.live[at].requested = true;
        self.advance();
        Some(at)
    }

    fn begin(&mut self, name: &StepName, kind: Kind) -> usize {
        let at = self.past.records.len();
        self.past.records.push(Record::new(name, kind));
        self.past.names.insert(name.clone(), at);
        self.cursor.begin();
        at
    }

    /// Queues an entry. If the entry ends the operation, the end gets its place in the order.
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

    /// Appends this operation's end to the order.
    pub(crate) fn end(&mut self, at: usize, end: End, number: u64) {
        self.past.records[at].end = Some(end);
        self.cursor.live[at].recorded = true;
        self.cursor.live[at].end = Some((self.past.order.len(), number));
        self.past.order.push(Mark { record: at, is_end: true });
        self.advance();
    }

    /// Takes an end back; its place in the order is ignored.
    pub(crate) fn revoke_end(&mut self, at: usize) {
        self.past.records[at].end = None;
        if let Some((mark, _)) = self.cursor.live[at].end.take() {
            self.past.order[mark].is_end = false;
        }
        self.advance();
    }

    /// Marks the operation as recorded.
    pub(crate) fn open(&mut self, at: usize) {
        if !self.cursor.live[at].recorded {
            self.cursor.live[at].recorded = true;
            self.past.order.push(Mark { record: at, is_end: false });
            self.advance();
        }
    }

    /// Drops an operation. If it is recorded, the drop is recorded, too; otherwise it leaves no
    /// trace.
    pub(super) fn abandon(&mut self, at: usize) {
        self.wakers.remove(&at);
        self.outstanding.remove(&at);
        self.children.remove(&at);
        self.queue.landings.retain(|landing| landing.at != at);
        let live = &mut self.cursor.live[at];
        if self.closing || live.delivered {
            return;
        }
        live.abandoned = true;
        let name = self.past.records[at].name.clone();
        if !live.recorded {
            self.past.names.remove(&name);
        } else if !self.past.records[at].dropped
            && let Ok(entry) = Entry::from(Dropped { name }).encode()
        {
            self.queue.push(entry);
        }
        self.advance();
    }
}

/// The error for a name that is used twice.
pub(crate) fn used_twice(name: &StepName) -> String {
    format!(
        "the name {:?} is used twice in one run; give every step, sleep, wait, child, value and race a name of its own, in a loop \
         with the number of the round",
        name.as_str()
    )
}
