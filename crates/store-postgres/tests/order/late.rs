//! A slow committer that has its position.

use futures_util::future::join_all;
use tidelock_store::{Commit, ExpectedVersion, FeedQuery, Position, Store, StoreExt, Version};

use crate::ground::{
    Ground, Plain, accepted, append, committed, event, feed_after, said, soon, stream,
};

/// Writes as the store does, and ends when it is told to.
pub(crate) struct Slow(Plain);

impl Slow {
    /// Has a position, and is not visible yet.
    pub(crate) async fn begin(ground: &Ground) -> Self {
        let plain = ground.connect().await;
        plain.run("BEGIN").await;
        plain.run("SELECT tidelock.append_one('slow', 0, gen_random_uuid(), 'said', '\"slow\"', '{}')").await;
        Self(plain)
    }

    pub(crate) async fn commit(self) {
        self.0.run("COMMIT").await;
    }

    pub(crate) async fn roll_back(self) {
        self.0.run("ROLLBACK").await;
    }
}

/// Schedule 1. LOG-7: a later commit does not wait, and is in the feed when all before it are.
#[tokio::test]
async fn what_has_the_lower_position_is_delivered_though_it_commits_late() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    let slow = Slow::begin(&ground).await;
    let fast = committed(&writer, append("fast", "fast")).await;
    assert_eq!(
        reader.read_whole_stream(&stream("fast")).await.unwrap().len(),
        1,
        "it is there for who asks"
    );

    let page = reader.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert!(page.events.is_empty() && page.at_end, "{page:?}");
    assert_eq!(page.next, Position::START);

    slow.commit().await;
    let events = feed_after(&reader, page.next).await;
    assert_eq!(said(&events), ["slow", "fast"]);
    assert!(events[0].position < events[1].position);
    assert_eq!(fast.appends[0].positions, Some((events[1].position, events[1].position)));
}

/// Schedule 1. LOG-7: the same for a commit of the store, with every expectation. It has its
/// position, and waits for a session that may commit its event's id.
#[tokio::test]
async fn a_commit_that_waits_behind_its_position_is_delivered() {
    let one = Version::new(1).unwrap();
    let ways = [
        ExpectedVersion::NoStream,
        ExpectedVersion::Any,
        ExpectedVersion::Exists,
        ExpectedVersion::Exact(one),
    ];
    for expected in ways {
        let ground = Ground::shared();
        let (slow, other) = (ground.open().await, ground.open().await);
        if expected != ExpectedVersion::NoStream {
            committed(&slow, append("slow", "before")).await;
        }
        let start = feed_after(&other, Position::START)
            .await
            .last()
            .map_or(Position::START, |e| e.position);
        let (holder, plain, late) = (ground.connect().await, ground.connect().await, event("late"));
        let same = format!("(-1, 'same', 1, '{}', 'said', '1', '{{}}', 0)", late.id);
        holder.run(&format!("BEGIN; INSERT INTO tidelock.events VALUES {same}")).await;
        let commit = Commit::new().append(&stream("slow"), expected, [late]);
        let waiting = tokio::spawn(async move { slow.commit(commit).await });
        plain.until_blocked(1).await;
        committed(&other, append("fast", "fast")).await;
        assert!(feed_after(&other, start).await.is_empty(), "{expected:?}");

        holder.run("ROLLBACK").await;
        accepted(soon("the commit", waiting).await.unwrap().unwrap());
        assert_eq!(said(&feed_after(&other, start).await), ["late", "fast"], "{expected:?}");
    }
}

/// Schedule 1. LOG-7: the same for commits of a batch, of which one waits.
#[tokio::test]
async fn commits_of_which_one_waits_behind_its_position_are_delivered() {
    let ground = Ground::shared();
    let (slow, other) = (ground.open().await, ground.open().await);
    for name in ["alone", "late", "beside"] {
        committed(&slow, append(name, "before")).await;
    }
    let start = feed_after(&other, Position::START).await.last().unwrap().position;
    let (holder, plain, late) = (ground.connect().await, ground.connect().await, event("late"));
    let same = format!("(-1, 'same', 1, '{}', 'said', '1', '{{}}', 0)", late.id);
    holder.run(&format!("BEGIN; INSERT INTO tidelock.events VALUES {same}")).await;
    let one = ExpectedVersion::Exact(Version::new(1).unwrap());
    let commits = [("alone", event("alone")), ("late", late), ("beside", event("beside"))]
        .map(|(name, event)| Commit::new().append(&stream(name), one, [event]));
    // The first goes alone, and the others share the next batch.
    let waiting =
        tokio::spawn(async move { join_all(commits.map(|commit| slow.commit(commit))).await });
    plain.until_blocked(1).await;
    committed(&other, append("fast", "fast")).await;
    assert_eq!(said(&feed_after(&other, start).await), ["alone"]);

    holder.run("ROLLBACK").await;
    for outcome in soon("the commits", waiting).await.unwrap() {
        accepted(outcome.unwrap());
    }
    assert_eq!(said(&feed_after(&other, start).await), ["alone", "beside", "late", "fast"]);
}

/// Schedule 1. LOG-7: the same for a filtered reader. It continues from the settled position, and
/// not from what it has found beyond.
#[tokio::test]
async fn a_filter_leads_no_reader_past_what_commits_late() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    let before = committed(&writer, append("before", "before")).await;
    let slow = Slow::begin(&ground).await;
    committed(&writer, append("fast", "fast")).await;

    for prefix in ["slow", "fast", "none"] {
        let query = FeedQuery::after(Position::START).stream_prefix(prefix);
        let page = reader.read_feed(query.clone()).await.unwrap();
        assert!(page.events.is_empty() && page.at_end, "{prefix}: {page:?}");
        assert_eq!(Some(page.next), before.appends[0].positions.map(|(_, last)| last), "{prefix}");
    }
    let page = reader.read_feed(FeedQuery::after(Position::START).limit(1)).await.unwrap();
    assert_eq!(
        (said(&page.events), page.next),
        (vec!["before".to_owned()], page.events[0].position)
    );

    slow.commit().await;
    assert_eq!(said(&feed_after(&reader, page.next).await), ["slow", "fast"]);
}

/// LOG-7: a writer knows its position before the feed has reached it, and may read on from there.
#[tokio::test]
async fn a_reader_that_begins_beyond_what_is_settled_waits_there() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    let slow = Slow::begin(&ground).await;
    let (_, fast) = committed(&writer, append("fast", "fast")).await.appends[0].positions.unwrap();
    committed(&writer, append("next", "next")).await;

    let page = reader.read_feed(FeedQuery::after(fast)).await.unwrap();
    assert!(page.events.is_empty() && page.at_end && page.next == fast, "{page:?}");
    slow.commit().await;
    assert_eq!(said(&feed_after(&reader, fast).await), ["next"]);
}

/// Schedule 2. LOG-7: the transaction that began first takes its position last.
#[tokio::test]
async fn an_older_transaction_that_takes_a_later_position_hides_no_event() {
    let ground = Ground::shared();
    let (older, reader) = (ground.open().await, ground.open().await);
    let plain = ground.connect().await;
    plain.run("CREATE TABLE tidelock.own (n int)").await;

    let own = older.begin().await.unwrap();
    own.execute(&format!("INSERT INTO {}.own VALUES (1)", ground.schema), &[]).await.unwrap();
    let slow = Slow::begin(&ground).await;
    accepted(soon("the older one", own.commit(append("older", "older"))).await.unwrap());
    assert!(feed_after(&reader, Position::START).await.is_empty());

    slow.commit().await;
    assert_eq!(said(&feed_after(&reader, Position::START).await), ["slow", "older"]);
}

/// Schedule 2, reversed: a reader has passed the younger one before the older one has a position.
#[tokio::test]
async fn an_older_transaction_comes_after_what_a_reader_has_seen() {
    let ground = Ground::shared();
    let (older, reader) = (ground.open().await, ground.open().await);
    ground.connect().await.run("CREATE TABLE tidelock.own (n int)").await;
    let own = older.begin().await.unwrap();
    own.execute(&format!("INSERT INTO {}.own VALUES (1)", ground.schema), &[]).await.unwrap();

    committed(&reader, append("younger", "younger")).await;
    let seen = feed_after(&reader, Position::START).await;
    assert_eq!(said(&seen), ["younger"]);

    accepted(own.commit(append("older", "older")).await.unwrap());
    assert_eq!(said(&feed_after(&reader, seen[0].position).await), ["older"]);
}

/// Schedule 4. LOG-7.
#[tokio::test]
async fn no_reader_waits_for_a_position_that_was_rolled_back() {
    let ground = Ground::shared();
    let (writer, reader) = (ground.open().await, ground.open().await);
    committed(&writer, append("before", "before")).await;
    let slow = Slow::begin(&ground).await;
    committed(&writer, append("after", "after")).await;
    assert_eq!(said(&feed_after(&reader, Position::START).await), ["before"]);

    slow.roll_back().await;
    let page = reader.read_feed(FeedQuery::after(Position::START)).await.unwrap();
    assert_eq!(said(&page.events), ["before", "after"]);
    assert!(page.at_end, "there is nothing to wait for");
}

/// Schedule 4: the same when the store itself rolls back, because of concurrent writes.
#[tokio::test]
async fn a_batch_that_is_undone_leaves_nothing_to_wait_for() {
    let ground = Ground::shared();
    let (one, other) = (ground.open().await, ground.open().await);
    for round in 1..=20 {
        // The same event id on two streams: the one that is rolled back has drawn positions before.
        let contended = event("once");
        let to = |name: &str| {
            let commit = append(&format!("{name}-beside"), name);
            commit.append(&stream(name), ExpectedVersion::Any, [contended.clone()])
        };
        let (a, b) = tokio::join!(one.commit(to("a")), other.commit(to("b")));
        assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
        committed(&one, append("beside", "beside")).await;
        assert_eq!(feed_after(&other, Position::START).await.len(), 3 * round);
    }
}

/// Schedules 1 and 2: a role or database may have another isolation level by default, at which a
/// transaction keeps its first snapshot. Readers must see all that is settled, and writers what
/// came before them.
#[tokio::test]
async fn nothing_is_missed_whatever_the_default_isolation_is() {
    // Our own connections set the level. A connection of a pooler cannot.
    for prepare in ["always", "never"] {
        let setting = format!("default_transaction_isolation%3Dserializable&prepare={prepare}");
        let ground = Ground::shared();
        let (writer, reader) =
            (ground.open_where(&setting).await, ground.open_where(&setting).await);
        let own = writer.begin().await.unwrap();
        own.query("SELECT 1", &[]).await.unwrap();
        let slow = Slow::begin(&ground).await;
        accepted(
            soon("the one in a user transaction", own.commit(append("own", "own"))).await.unwrap(),
        );
        committed(&writer, append("fast", "fast")).await;
        assert!(feed_after(&reader, Position::START).await.is_empty());
        slow.commit().await;
        let events = feed_after(&reader, Position::START).await;
        assert_eq!(said(&events), ["slow", "own", "fast"]);
    }
}

/// A ticket is held until its events are visible, however far positions jump in the meantime.
#[tokio::test]
async fn a_new_epoch_leads_no_reader_past_what_commits_late() {
    let ground = Ground::shared();
    let writer = ground.open().await;
    let before =
        committed(&writer, append("before", "before")).await.appends[0].positions.unwrap().1;
    let slow = Slow::begin(&ground).await;
    ground.connect().await.run("UPDATE tidelock.epochs SET home = 'elsewhere'").await;
    let newcomer = ground.open().await;
    let after =
        committed(&newcomer, append("after", "after")).await.appends[0].positions.unwrap().1;
    assert!(after.get() > before.get() + (1 << 40), "an epoch has begun");
    assert!(feed_after(&newcomer, before).await.is_empty());
    slow.commit().await;
    assert_eq!(said(&feed_after(&newcomer, before).await), ["slow", "after"]);
}
