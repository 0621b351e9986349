//! The aggregates whose books the workers close: accounts, in which every booking has an id.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::closing::{CloseError, discard};
use tidelock::events::{Aggregate, AggregateRef, Snapshots};
use tidelock::store::{HeadQuery, StoreExt, StoredEvent};
use tidelock::{Event, ExecuteError, Tidelock};

use crate::caller::{Bug, Caller};
use crate::journal::Entry;
use crate::space::Space;

/// The name of an account.
const FIRST: &str = "0-0";
/// How many events a window keeps.
const KEPT: u64 = 5;
/// The lease of a closing: short, so that other closers take over from a killed one during a round.
const LEASE: Duration = Duration::from_secs(3);

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Account {
    /// Number of bookings.
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

/// How the books are closed.
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

/// An archived event: its version, and the booking's id.
pub(crate) type Kept = (u64, String);

pub(crate) fn account(caller: &Caller, space: &Space, name: &str) -> AggregateRef<Account> {
    Tidelock::over(caller.store.clone()).aggregate::<Account>(space.account(name))
}

/// The version and booking id of an event.
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

/// Makes a booking.
pub(crate) async fn book(
    account: &AggregateRef<Account>,
    id: &str,
) -> Result<(), ExecuteError<Infallible>> {
    account.execute(|_| Ok(AccountEvent::Booked { id: id.to_owned() })).await.map(drop)
}

/// Closes the books in this way, with the journal as the archive.
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

/// The names of all accounts.
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

/// The final state of an account.
#[derive(Debug, Clone, Default)]
pub(crate) struct AccountState {
    /// The events that remain in its stream.
    pub(crate) left: Vec<Kept>,
    /// The number of bookings in its state; none if it was closed for good.
    pub(crate) bookings: Option<u64>,
    /// Whether a closing of its books is unfinished.
    pub(crate) open: bool,
}

/// Reads the store after the last closer has ended, and checks for unfinished closings.
pub(crate) async fn read(
    caller: &Caller,
    space: &Space,
) -> Result<BTreeMap<String, AccountState>, Bug> {
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
        accounts.insert(name, AccountState { left, bookings, open: !is_done });
    }
    Ok(accounts)
}

/// Whether an account is closed for good at the end: one in four is.
pub(crate) fn is_closed_for_good(name: &str) -> bool {
    name.ends_with("-0")
}
