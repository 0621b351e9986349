//! Optimistic concurrency: every expectation against every kind of stream.

use tidelock_store::{
    AfterTrim, Append, Commit, ExpectedVersion, Part, Store, StreamName, StreamState, Version,
    ViolationKind, ViolationReason,
};

use crate::case::{World, cases};
use crate::sample::{commit, event, events, exact, refused_whole, stream, version, violation};
use ExpectedVersion::{Any, Exists, NoStream};
use ViolationKind::{Closed, Gone, Moved, Taken};

cases! { "log::expect":
    "LOG-1" a_stream_that_never_was_meets_any_and_no_stream,
    "LOG-1" an_open_stream_meets_any_exists_and_its_version,
    "LOG-1 LOG-8" a_closed_stream_takes_no_append_whatever_is_expected,
    "LOG-1 LOG-8" a_trimmed_stream_that_stays_closed_takes_no_append,
    "LOG-1 LOG-2 LOG-8" a_trimmed_stream_that_was_reopened_is_at_its_version,
}

/// The stream before the append. Those that exist are at version 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    Nothing,
    Open,
    Closed,
    /// Closed, with no event left.
    Trimmed,
    /// Open again, with no event left.
    Reopened,
}

impl Given {
    pub(crate) async fn make(self, store: &dyn Store, name: &StreamName) {
        if self != Self::Nothing {
            commit(store, Commit::new().append(name, NoStream, events(2))).await;
        }
        if !matches!(self, Self::Nothing | Self::Open) {
            commit(store, Commit::new().with_append(Append::closing(name, exact(2)))).await;
        }
        if self == Self::Trimmed {
            commit(store, Commit::new().trim(name, version(2), AfterTrim::StayClosed)).await;
        }
        if self == Self::Reopened {
            commit(store, Commit::new().trim(name, version(2), AfterTrim::Reopen)).await;
        }
    }

    pub(crate) fn state(self) -> StreamState {
        match self {
            Self::Nothing => StreamState::Absent,
            Self::Open | Self::Reopened => StreamState::Open(version(2)),
            Self::Closed | Self::Trimmed => StreamState::Closed(version(2)),
        }
    }

    fn refusal(self, stream: StreamName, expected: ExpectedVersion) -> ViolationReason {
        match self.state() {
            StreamState::Closed(version) => ViolationReason::Closed { stream, version },
            found => ViolationReason::Stream { stream, expected, found },
        }
    }
}

/// Appends one event with each expectation: accepted where there is no kind of violation, refused
/// so where there is.
async fn judge(
    store: &dyn Store,
    given: Given,
    table: [(ExpectedVersion, Option<ViolationKind>); 6],
) {
    for (expected, kind) in table {
        let name = stream(&format!("{given:?}, expecting {expected}"));
        given.make(store, &name).await;
        let append = Commit::new().append(&name, expected, [event(3)]);
        let Some(kind) = kind else {
            let done = commit(store, append).await;
            let before = given.state().version().map_or(0, Version::get);
            assert_eq!(done.appends[0].version, version(before + 1), "{name}");
            continue;
        };
        let conflict = refused_whole(store, append).await;
        assert_eq!(conflict, violation(Part::Append(0), given.refusal(name.clone(), expected)));
        assert_eq!(conflict.first().reason.kind(), kind, "{name}");
    }
}

async fn a_stream_that_never_was_meets_any_and_no_stream(world: World) {
    let table = [
        (Any, None),
        (NoStream, None),
        (Exists, Some(Gone)),
        (exact(1), Some(Gone)),
        (exact(2), Some(Gone)),
        (exact(i64::MAX as u64), Some(Gone)),
    ];
    judge(&*world.store, Given::Nothing, table).await;
}

async fn an_open_stream_meets_any_exists_and_its_version(world: World) {
    judge(&*world.store, Given::Open, of_a_stream_at_version_2()).await;
}

async fn a_closed_stream_takes_no_append_whatever_is_expected(world: World) {
    judge(&*world.store, Given::Closed, of_a_closed_stream()).await;
}

async fn a_trimmed_stream_that_stays_closed_takes_no_append(world: World) {
    judge(&*world.store, Given::Trimmed, of_a_closed_stream()).await;
}

async fn a_trimmed_stream_that_was_reopened_is_at_its_version(world: World) {
    judge(&*world.store, Given::Reopened, of_a_stream_at_version_2()).await;
}

fn of_a_stream_at_version_2() -> [(ExpectedVersion, Option<ViolationKind>); 6] {
    [
        (Any, None),
        (NoStream, Some(Taken)),
        (Exists, None),
        (exact(1), Some(Moved)),
        (exact(2), None),
        (exact(3), Some(Moved)),
    ]
}

fn of_a_closed_stream() -> [(ExpectedVersion, Option<ViolationKind>); 6] {
    [Any, NoStream, Exists, exact(1), exact(2), exact(3)].map(|expected| (expected, Some(Closed)))
}
