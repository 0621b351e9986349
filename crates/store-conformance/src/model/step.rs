//! Steps of random histories, and how they are drawn.
//!
//! A step names things by their place ("the last lease but one", "the version it is at"), so that
//! it still has a meaning when earlier steps are removed. There are few names, so that steps
//! interact.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use tidelock_store::{
    Adjustment, AfterTrim, Bounds, Change, Direction, Edit, FeedStart, Item, ItemFilter, ItemRef,
    LaneName, Mark, NamePattern, Position, Priority, QueueName, Rate, RawJson, RecordKey, Settle,
    StreamName, Timestamp, Wake, When,
};

use super::call::Tick;

pub(super) const STREAMS: [&str; 4] = ["s", "s/1", "s/2", "t"];
pub(super) const RECORDS: [&str; 3] = ["k", "k-1", "l"];
pub(super) const QUEUES: [&str; 2] = ["q", "q-1"];
const ITEMS: [&str; 3] = ["a", "ab", "b"];
const LANES: [&str; 2] = ["default", "slow"];

/// One step of a history.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Commit { under_id: bool, parts: Vec<PartStep> },
    CommitAgain { which: usize, altered: bool },
    ReadStream { stream: StreamName, direction: Direction, from: Option<u64>, limit: usize },
    ReadFeed { from: FeedStart, prefix: String, limit: usize },
    Heads { prefix: Option<String>, limit: usize },
    Get,
    Scan { prefix: String, limit: usize },
    Lease { queue: QueueName, lane: Option<LaneName>, seconds: u64, limit: usize },
    Renew { which: Vec<usize>, seconds: u64 },
    Items { filter: ItemFilter, limit: usize },
    Adjust { filter: ItemFilter, adjustment: Adjustment },
    Clock(Tick),
}

/// One part of a commit.
#[derive(Debug, Clone)]
pub(super) enum PartStep {
    Append { stream: StreamName, expected: Expect, events: Vec<EventStep>, close: bool },
    AppendAgain { which: usize, expected: Expect },
    Write { key: RecordKey, expected: Expect, change: Change },
    Wake(Wake),
    Settle { which: usize, done: Option<Mark>, exit: Settle },
    SettleAgain { which: usize },
    Fence { which: usize },
    GuardStream { stream: StreamName, expected: Expect },
    GuardRecord { key: RecordKey, expected: Expect },
    Trim { stream: StreamName, back: u64, then: AfterTrim },
    Restore(Box<Item>),
}

/// The expected state of a stream or a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expect {
    Anything,
    Nothing,
    Something,
    /// The actual state, as far as the history tells.
    Right,
    Exactly(u64),
}

/// One event of an append.
#[derive(Debug, Clone, Copy)]
pub(super) enum EventStep {
    Fresh(u8),
    /// One that is in the store already.
    Known(usize),
    /// The id of one that is in the store already, with other content.
    Altered(usize),
}

/// Histories, each of which ends with reads of everything.
pub(super) fn history() -> impl Strategy<Value = Vec<Step>> {
    vec(step(), 1..120).prop_map(|mut steps| {
        steps.extend(a_look_at_everything());
        steps
    })
}

fn a_look_at_everything() -> impl Iterator<Item = Step> {
    let streams = STREAMS.into_iter().map(|name| Step::ReadStream {
        stream: StreamName::new(name).unwrap(),
        direction: Direction::Forward,
        from: None,
        limit: 1_000,
    });
    let others = [
        Step::ReadFeed {
            from: FeedStart::After(Position::START),
            prefix: String::new(),
            limit: 1_000,
        },
        Step::Heads { prefix: None, limit: 1 },
        Step::Get,
        Step::Scan { prefix: String::new(), limit: 1_000 },
        Step::Items { filter: ItemFilter::default(), limit: 1_000 },
    ];
    streams.chain(others)
}

/// The position counts events.
fn feed_start() -> impl Strategy<Value = FeedStart> {
    let position = || (0..30_u64).prop_map(|rank| Position::START.plus(rank));
    prop_oneof![
        3 => position().prop_map(FeedStart::After),
        1 => (position(), 0..6_usize).prop_map(|(position, events)| FeedStart::Before(position, events)),
        1 => (0..6_usize).prop_map(FeedStart::Last),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        36 => (any::<bool>(), parts()).prop_map(|(under_id, parts)| Step::Commit { under_id, parts }),
        // Most commits do some work and report it at the same time.
        8 => part_settle().prop_map(|part| Step::Commit { under_id: true, parts: vec![part] }),
        // Closing, trimming and reopening in one commit is rare by chance.
        3 => (stream(), vec(event(), 0..2), 0..4_u64, after_trim()).prop_map(|(stream, events, back, then)| {
            let expected = Expect::Anything;
            let close = PartStep::Append { stream: stream.clone(), expected, events, close: true };
            Step::Commit { under_id: true, parts: vec![close, PartStep::Trim { stream, back, then }] }
        }),
        4 => (0..4_usize, prop::bool::weighted(0.2))
            .prop_map(|(which, altered)| Step::CommitAgain { which, altered }),
        4 => (stream(), direction(), option::of(1..9_u64), limit())
            .prop_map(|(stream, direction, from, limit)| Step::ReadStream { stream, direction, from, limit }),
        3 => (feed_start(), prefix(), limit())
            .prop_map(|(from, prefix, limit)| Step::ReadFeed { from, prefix, limit }),
        2 => (option::of(prefix()), limit()).prop_map(|(prefix, limit)| Step::Heads { prefix, limit }),
        3 => Just(Step::Get),
        2 => (prop::sample::select(vec!["", "k", "k-", "z"]), limit())
            .prop_map(|(prefix, limit)| Step::Scan { prefix: prefix.to_owned(), limit }),
        18 => (queue(), option::weighted(0.2, lane()), seconds(), limit())
            .prop_map(|(queue, lane, seconds, limit)| Step::Lease { queue, lane, seconds, limit }),
        5 => (prop_oneof![1 => Just(vec![]), 15 => vec(0..4_usize, 1..3)], seconds())
            .prop_map(|(which, seconds)| Step::Renew { which, seconds }),
        2 => (filter(), limit()).prop_map(|(filter, limit)| Step::Items { filter, limit }),
        5 => (filter(), adjustment()).prop_map(|(filter, adjustment)| Step::Adjust { filter, adjustment }),
        10 => tick().prop_map(Step::Clock),
    ]
}

fn tick() -> impl Strategy<Value = Tick> {
    let seconds =
        prop_oneof![20 => seconds(), 1 => Just(8 * 24 * 3600)].prop_map(Duration::from_secs);
    prop_oneof![
        8 => seconds.clone().prop_map(Tick::Advance),
        1 => seconds.clone().prop_map(Tick::SetForward),
        1 => seconds.prop_map(Tick::SetBack),
    ]
}

fn parts() -> impl Strategy<Value = Vec<PartStep>> {
    prop_oneof![1 => Just(vec![]), 32 => vec(part(), 1..2), 16 => vec(part(), 2..5)]
}

fn part() -> impl Strategy<Value = PartStep> {
    prop_oneof![
        16 => (stream(), expect(), vec(event(), 1..4), prop::bool::weighted(0.1))
            .prop_map(|(stream, expected, events, close)| PartStep::Append { stream, expected, events, close }),
        1 => (stream(), expect(), prop::bool::weighted(0.9)).prop_map(|(stream, expected, close)| {
            PartStep::Append { stream, expected, events: vec![], close }
        }),
        3 => (0..4_usize, expect())
            .prop_map(|(which, expected)| PartStep::AppendAgain { which, expected }),
        16 => (record(), expect(), change())
            .prop_map(|(key, expected, change)| PartStep::Write { key, expected, change }),
        20 => wake().prop_map(PartStep::Wake),
        4 => part_settle(),
        4 => (0..3_usize).prop_map(|which| PartStep::Fence { which }),
        3 => (stream(), expect()).prop_map(|(stream, expected)| PartStep::GuardStream { stream, expected }),
        3 => (record(), expect()).prop_map(|(key, expected)| PartStep::GuardRecord { key, expected }),
        5 => (stream(), 0..4_u64, after_trim())
            .prop_map(|(stream, back, then)| PartStep::Trim { stream, back, then }),
        4 => restored().prop_map(|item| PartStep::Restore(Box::new(item))),
    ]
}

/// An item as it may have been in another store.
fn restored() -> impl Strategy<Value = Item> {
    let names = (item(), lane(), priority());
    let work = (mark(), mark(), option::weighted(0.7, moment()), option::weighted(0.3, moment()));
    let past = (0..4_u32, 0..4_u32, 0..4_u32, prop::bool::weighted(0.2), option::of("[a-z]{1,3}"));
    (names, work, past).prop_map(|((item, lane, priority), (one, other, due, hold), past)| {
        let (attempts, failures, expiries, blocked, error) = past;
        Item {
            item,
            lane,
            priority,
            at: one.min(other),
            mark: one.max(other),
            due,
            hold,
            attempts,
            failures,
            expiries,
            blocked,
            error,
            fence: None,
            holder: None,
            settled: None,
            forget_at: None,
        }
    })
}

/// Moments of another store's clock.
fn moment() -> impl Strategy<Value = Timestamp> {
    let moments = [
        "2001-01-01T00:00:00Z",
        "2001-01-01T00:00:01Z",
        "2001-01-02T00:00:00Z",
        "2099-01-01T00:00:00Z",
    ];
    prop::sample::select(moments.to_vec()).prop_map(|text| text.parse().unwrap())
}

fn part_settle() -> impl Strategy<Value = PartStep> {
    prop_oneof![
        4 => (0..3_usize, option::of(mark()), exit())
            .prop_map(|(which, done, exit)| PartStep::Settle { which, done, exit }),
        1 => (0..3_usize).prop_map(|which| PartStep::SettleAgain { which }),
    ]
}

fn exit() -> impl Strategy<Value = Settle> {
    prop_oneof![
        4 => (option::weighted(0.3, when()), option::weighted(0.3, soon()))
            .prop_map(|(defer, forget)| Settle::Ack { defer, forget }),
        2 => (seconds(), "[a-z]{1,3}")
            .prop_map(|(after, error)| Settle::Retry { after: Duration::from_secs(after), error }),
        1 => when().prop_map(|until| Settle::Defer { until }),
        1 => "[a-z]{1,3}".prop_map(|error| Settle::Block { error }),
        1 => Just(Settle::Release),
    ]
}

fn after_trim() -> impl Strategy<Value = AfterTrim> {
    prop_oneof![
        2 => Just(AfterTrim::Reopen),
        1 => Just(AfterTrim::StayClosed),
        2 => soon().prop_map(AfterTrim::Forget),
    ]
}

fn expect() -> impl Strategy<Value = Expect> {
    prop_oneof![
        6 => Just(Expect::Anything),
        8 => Just(Expect::Right),
        1 => Just(Expect::Nothing),
        2 => Just(Expect::Something),
        1 => (1..5_u64).prop_map(Expect::Exactly),
    ]
}

fn event() -> impl Strategy<Value = EventStep> {
    prop_oneof![
        40 => any::<u8>().prop_map(EventStep::Fresh),
        1 => (0..6_usize).prop_map(EventStep::Known),
        1 => (0..6_usize).prop_map(EventStep::Altered),
    ]
}

fn change() -> impl Strategy<Value = Change> {
    let value = prop_oneof![
        3 => (-9..9_i64).prop_map(|number| RawJson::new(&number).unwrap()),
        1 => Just(RawJson::new("text").unwrap()),
    ];
    prop_oneof![
        5 => (value, expiry()).prop_map(|(value, expires)| Change::Put { value, expires }),
        2 => Just(Change::Delete),
        6 => (delta(), bounds(), expiry())
            .prop_map(|(delta, within, expires)| Change::Add { delta, within, expires }),
        2 => rate().prop_map(Change::Rate),
        3 => (edit(), expiry()).prop_map(|(edit, expires)| Change::Edit { edit, expires }),
    ]
}

/// An edit of a whole document.
fn edit() -> impl Strategy<Value = Edit> {
    let number = || (-9..9_i64).prop_map(|number| RawJson::new(&number).unwrap());
    let key = || (0..3_u8).prop_map(|key| key.to_string());
    let at = String::new;
    prop_oneof![
        2 => delta().prop_map(move |by| Edit::Increment { at: at(), by }),
        1 => number().prop_map(move |item| Edit::Push { at: at(), item }),
        2 => (key(), number()).prop_map(move |(key, value)| Edit::SetEntry { at: at(), key, value }),
        1 => key().prop_map(move |key| Edit::RemoveEntry { at: at(), key }),
    ]
}

fn rate() -> impl Strategy<Value = Rate> {
    let seconds = |most| (0..most).prop_map(Duration::from_secs);
    (seconds(4_u64), seconds(9)).prop_map(|(cost, burst)| Rate { cost, burst })
}

fn delta() -> impl Strategy<Value = i64> {
    prop_oneof![20 => -9..9_i64, 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}

fn bounds() -> impl Strategy<Value = Bounds> {
    (option::of(-10..1_i64), option::of(-1..10_i64)).prop_map(|(min, max)| Bounds { min, max })
}

fn expiry() -> impl Strategy<Value = Option<When>> {
    option::weighted(0.3, when())
}

fn wake() -> impl Strategy<Value = Wake> {
    let names = (item(), option::weighted(0.3, lane()), option::weighted(0.5, priority()));
    let work = (option::weighted(0.9, mark()), option::weighted(0.3, when()));
    (names, work).prop_map(|((item, lane, priority), (mark, due))| Wake {
        item,
        mark,
        due,
        lane,
        priority,
    })
}

/// A moment: soon, long past or far ahead.
fn when() -> impl Strategy<Value = When> {
    let at = |text: &str| Just(When::At(text.parse::<Timestamp>().unwrap()));
    prop_oneof![
        8 => seconds().prop_map(|seconds| When::In(Duration::from_secs(seconds))),
        1 => at("2001-01-01T00:00:00Z"),
        1 => at("2099-01-01T00:00:00Z"),
    ]
}

/// Not at once: what is forgotten leaves when the clock is next moved, on every store.
fn soon() -> impl Strategy<Value = When> {
    prop::sample::select(vec![1, 5, 10, 30])
        .prop_map(|seconds| When::In(Duration::from_secs(seconds)))
}

fn filter() -> impl Strategy<Value = ItemFilter> {
    let name = || {
        let likes = vec!["*", "q*", "?b", "a*", "*-?", "zz"];
        prop_oneof![
            3 => Just(NamePattern::Any),
            2 => prop::sample::select(likes).prop_map(NamePattern::like),
            1 => prop::sample::subsequence(vec!["a", "b", "q", "q-1"], 0..3)
                .prop_map(|names| NamePattern::OneOf(names.into_iter().map(str::to_owned).collect())),
        ]
    };
    let flag = || option::weighted(0.2, any::<bool>());
    (name(), name(), option::weighted(0.2, lane()), flag(), flag()).prop_map(
        |(queue, key, lane, blocked, held)| ItemFilter { queue, key, lane, blocked, held },
    )
}

fn adjustment() -> impl Strategy<Value = Adjustment> {
    prop_oneof![
        3 => Just(Adjustment::Unblock),
        2 => mark().prop_map(|to| Adjustment::Reset { to }),
        1 => when().prop_map(|until| Adjustment::Defer { until }),
        1 => priority().prop_map(|priority| Adjustment::Prioritize { priority }),
        1 => lane().prop_map(|lane| Adjustment::Move { lane }),
        1 => soon().prop_map(|when| Adjustment::Forget { when }),
    ]
}

/// Few different ones, so that moments coincide.
fn seconds() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0), 20 => prop::sample::select(vec![1, 5, 10, 30])]
}

fn limit() -> impl Strategy<Value = usize> {
    prop_oneof![40 => 1..5_usize, 1 => Just(0)]
}

fn mark() -> impl Strategy<Value = Mark> {
    (0..9_u64).prop_map(|number| Mark::new(number).unwrap())
}

fn priority() -> impl Strategy<Value = Priority> {
    (-2..3_i16).prop_map(|number| Priority::new(number).unwrap())
}

fn direction() -> impl Strategy<Value = Direction> {
    prop::sample::select(vec![Direction::Forward, Direction::Backward])
}

fn prefix() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "s", "s/", "t", "z"]).prop_map(str::to_owned)
}

fn stream() -> impl Strategy<Value = StreamName> {
    prop::sample::select(&STREAMS).prop_map(|name| StreamName::new(name).unwrap())
}

fn record() -> impl Strategy<Value = RecordKey> {
    prop::sample::select(&RECORDS).prop_map(|name| RecordKey::new(name).unwrap())
}

fn queue() -> impl Strategy<Value = QueueName> {
    prop_oneof![4 => Just(QUEUES[0]), 1 => Just(QUEUES[1])]
        .prop_map(|name| QueueName::new(name).unwrap())
}

fn lane() -> impl Strategy<Value = LaneName> {
    prop::sample::select(&LANES).prop_map(|name| LaneName::new(name).unwrap())
}

fn item() -> impl Strategy<Value = ItemRef> {
    (queue(), prop::sample::select(&ITEMS))
        .prop_map(|(queue, key)| ItemRef::parse(queue.as_str(), key).unwrap())
}
