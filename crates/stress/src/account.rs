//! The aggregates whose books the workers of a round close: accounts, in which every booking has an
//! id.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::{
    Aggregate, AggregateRef, CloseError, Event, ExecuteError, HeadQuery, Snapshots, StoreExt,
    StoredEvent, Tidelock, discard,
};

use crate::caller::{Bug, Caller};
use crate::journal::Entry;
use crate::space::Space;

/// The name of an account.
const FIRST: &str = "0-0";
/// How many events a window keeps.
const KEPT: u64 = 5;
/// How long the books stay with a closer that was killed: so short that others take them over while
/// a round goes on.
const LEASE: Duration = Duration::from_secs(3);

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Account {
    /// How many bookings there are.
    pub(crate) bookings: u64,
}

#[derive(Debug, Event)]
pub(crate) enum AccountEvent {
    Booked { id: String },
}

impl Aggregate for Account {
    const KIND: &'static str = "account";
    type Event = AccountEvent;

    fn apply(&mut self, _: &AccountEvent) {
        self.bookings += 1;
    }

    fn snapshots() -> Snapshots<Self> {
        Snapshots::every(50)
    }
}

/// What becomes of the books.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    Close,
    Restart,
    KeepLast,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Close, Self::Restart, Self::KeepLast];
}

/// An event that went to the archive: its version, and the booking's id.
pub(crate) type Kept = (u64, String);

pub(crate) fn account(caller: &Caller, space: &Space, name: &str) -> AggregateRef<Account> {
    Tidelock::over(caller.store.clone()).aggregate::<Account>(space.account(name))
}

/// What an event is about.
pub(crate) fn kept(event: &StoredEvent) -> Kept {
    let id = event
        .payload
        .to::<Booking>()
        .map_or_else(|_| event.payload.to_string(), |booking| booking.id);
    (event.version.get(), id)
}

#[derive(Deserialize)]
struct Booking {
    id: String,
}

/// Books something.
pub(crate) async fn book(
    account: &AggregateRef<Account>,
    id: &str,
) -> Result<(), ExecuteError<Infallible>> {
    account.execute(|_| Ok(AccountEvent::Booked { id: id.to_owned() })).await.map(drop)
}

/// Closes the books in this way, with the journal for an archive.
pub(crate) async fn close(
    caller: &Caller,
    space: &Space,
    name: &str,
    way: Way,
) -> Result<(), CloseError> {
    caller.note(&Entry::Closing { account: name.to_owned(), way });
    let (archivist, of) = (caller.clone(), name.to_owned());
    let archive = move |events: Vec<StoredEvent>| {
        archivist.note(&Entry::Archived {
            account: of.clone(),
            events: events.iter().map(kept).collect(),
        });
        async { Ok::<_, Infallible>(()) }
    };
    let books = account(caller, space, name).archive_to(archive).lease(LEASE);
    let closed = match way {
        Way::Close => books.close().await,
        Way::Restart => books.restart().await,
        Way::KeepLast => books.keep_last(KEPT).await,
    };
    closed.map(|_| caller.note(&Entry::Closed { account: name.to_owned(), way }))
}

/// The names of all accounts that there are.
pub(crate) async fn all(caller: &Caller, space: &Space) -> Result<Vec<String>, Bug> {
    let first = account(caller, space, FIRST);
    let stream = first.stream().map_err(|e| Bug(e.to_string()))?.as_str();
    let prefix = stream.strip_suffix(FIRST).unwrap_or(stream).to_owned();
    let mut query = HeadQuery::prefix(prefix.clone());
    let mut names = Vec::new();
    loop {
        let page = caller.insist("heads", || caller.store.heads(query.clone())).await?;
        let of = page.heads.iter().filter_map(|head| head.stream.as_str().strip_prefix(&prefix));
        names.extend(of.map(str::to_owned));
        match (page.next, &mut query) {
            (Some(next), HeadQuery::Prefix { after, .. }) => *after = Some(next),
            _ => return Ok(names),
        }
    }
}

/// How an account stands in the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// The events that are still in its stream.
    pub(crate) left: Vec<Kept>,
    /// How many bookings its state counts; nothing if it was closed for good.
    pub(crate) bookings: Option<u64>,
    /// Whether a closing of its books is not done.
    pub(crate) open: bool,
}

/// Reads the store, once the last closer has ended, and asks whether there is anything left to
/// close.
pub(crate) async fn read(
    caller: &Caller,
    space: &Space,
) -> Result<BTreeMap<String, Standing>, Bug> {
    let mut accounts = BTreeMap::new();
    for name in all(caller, space).await? {
        let account = account(caller, space, &name);
        let closed = if is_closed_for_good(&name) {
            account.archive_to(discard).close().await
        } else {
            account.archive_to(discard).keep_last(KEPT).await
        };
        let is_done = match closed {
            Ok(closed) => closed.archived == 0,
            Err(error) => matches!(error, CloseError::NothingToClear { .. }),
        };
        let stream = account.stream().map_err(|e| Bug(e.to_string()))?;
        let events =
            caller.insist("read stream", || caller.store.read_whole_stream(stream)).await?;
        let bookings = match is_closed_for_good(&name) {
            true => None,
            false => Some(account.load().await.map_err(|e| Bug(e.to_string()))?.state.bookings),
        };
        let left = events.iter().map(kept).collect();
        accounts.insert(name, Standing { left, bookings, open: !is_done });
    }
    Ok(accounts)
}

/// One account in four is given up in the end.
pub(crate) fn is_closed_for_good(name: &str) -> bool {
    name.ends_with("-0")
}
