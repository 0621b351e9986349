//! Feeds that skip, repeat or reorder.

use super::assert_correct;
use super::bad::{Bad, bad as shows};
use super::script::{Absent, Any, Exactly, Script, append, appending, at};

const FEED: [&str; 3] = ["a s 1 1", "b t 1 2", "c s 2 4"];

fn three_commits() -> Script {
    let mut script = Script::default();
    script.commit(1..2, [append("s", Any, "a", (1, 1, 1))]);
    script.commit(3..4, [append("t", Any, "b", (1, 2, 2))]);
    script.commit(5..6, [append("s", Any, "c", (2, 4, 4))]);
    script
}

fn after_three(s: &mut Script) -> &mut Script {
    *s = three_commits();
    s.feed(FEED)
}

pub(super) fn bad() -> Vec<Bad> {
    [pages(), events()].into_iter().flatten().collect()
}

fn pages() -> Vec<Bad> {
    vec![
        shows("feed out of order", "in a page", |s| {
            after_three(s).page(7..8, "f", (0, 4), ["b t 1 2", "a s 1 1", "c s 2 4"]);
        }),
        shows("feed out of order", "in the final feed", |s| {
            *s = three_commits();
            s.feed(["b t 1 2", "a s 1 1", "c s 2 4"]);
        }),
        shows("feed out of order", "a stream against its versions", |s| {
            s.feed(["b s 2 1", "a s 1 2"]);
        }),
        shows("follower skips", "an event in a page", |s| {
            after_three(s).page(7..8, "f", (0, 4), ["a s 1 1", "c s 2 4"]);
        }),
        shows("follower skips", "between two pages", |s| {
            after_three(s).page(7..8, "f", (0, 1), ["a s 1 1"]);
            s.page(9..10, "f", (2, 4), ["c s 2 4"]);
        }),
        shows("follower skips", "what another follower saw", |s| {
            *s = three_commits();
            s.page(7..8, "f", (0, 4), FEED).page(7..8, "g", (1, 4), ["c s 2 4"]);
        }),
        shows("followers disagree", "on a position", |s| {
            *s = three_commits();
            s.page(7..8, "f", (0, 1), ["a s 1 1"]).page(7..8, "g", (0, 1), ["x s 1 1"]);
        }),
        shows("followers disagree", "with the final feed", |s| {
            after_three(s).page(7..8, "f", (2, 4), ["x u 1 3", "c s 2 4"]);
        }),
        shows("position in the past", "of a commit after another", |s| {
            s.commit(1..2, [append("s", Any, "a", (1, 5, 5))]);
            s.commit(3..4, [append("t", Any, "b", (1, 3, 3))]);
        }),
        shows("position in the past", "of a commit after a page", |s| {
            s.page(1..2, "f", (0, 9), []).commit(3..4, [append("t", Any, "b", (1, 3, 3))]);
        }),
    ]
}

fn events() -> Vec<Bad> {
    vec![
        shows("event twice in the feed", "at two positions", |s| {
            *s = three_commits();
            s.feed(["a s 1 1", "b t 1 2", "c s 2 4", "a s 1 5"]);
        }),
        shows("event twice in the feed", "at one position", |s| {
            *s = three_commits();
            s.feed(["a s 1 1", "a s 1 1", "b t 1 2", "c s 2 4"]);
        }),
        shows("written though refused", "for its version", |s| {
            after_three(s);
            s.refused("", 7..8, &[appending("s", Exactly(1), "d")], 0, at(2));
            s.feed(["a s 1 1", "b t 1 2", "c s 2 4", "d s 3 5"]);
        }),
        shows("written though refused", "half of it", |s| {
            after_three(s);
            let parts = [appending("s", Exactly(1), "d"), appending("t", Any, "e")];
            s.refused("", 7..8, &parts, 0, at(2));
            s.feed(["a s 1 1", "b t 1 2", "c s 2 4", "e t 2 5"]);
        }),
        shows("lost event", "that was acknowledged", |s| {
            *s = three_commits();
            s.feed(["a s 1 1", "c s 2 4"]);
        }),
        shows("lost event", "at another version", |s| {
            *s = three_commits();
            s.feed(["a s 1 1", "b t 2 2", "c s 2 4"]);
        }),
        shows("unexplained event", "in the feed", |s| {
            after_three(s).feed(["a s 1 1", "b t 1 2", "c s 2 4", "x u 1 5"]);
        }),
        shows("unexplained event", "beside an unknown outcome", |s| {
            s.unknown("", 1, &[appending("s", Any, "a")]).feed(["a s 1 1", "x s 2 2"]);
        }),
    ]
}

#[test]
fn followers_may_read_in_pages_of_any_size_and_go_back() {
    let mut script = three_commits();
    script.feed(FEED);
    script.page(7..8, "f", (0, 1), ["a s 1 1"]).page(9..10, "f", (1, 1), []);
    script.page(11..12, "f", (1, 4), ["b t 1 2", "c s 2 4"]);
    script.page(13..14, "f", (0, 2), ["a s 1 1", "b t 1 2"]);
    script.page(13..14, "g", (2, 4), ["c s 2 4"]);
    script.refused("", 7..8, &[appending("s", Absent, "d")], 0, at(2));
    assert_correct(&script);
}
