//! What reactions keep about a stream is removed with its events, and not before they are handled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidelock::prelude::*;
use tidelock::store::{
    Commit, Item, ItemFilter, ItemQuery, ItemRef, StoreExt, StoredEvent, StreamName, Wake, limits,
};
use tidelock::{AggregateRef, When, discard};
use tidelock_test_stage::{Observed, Running, TestStore, brisk, note, on_every_store, until};

use crate::account::{Account, pay};
use crate::stage::{until_blocked, until_quiet};

on_every_store!(
    the_cursor_on_a_closed_stream_is_forgotten_and_no_other_is,
    a_cursor_with_something_left_to_do_is_kept_until_a_close_finds_it_done,
    dangling_links_are_removed_and_the_target_continues,
    links_of_a_target_that_an_open_stream_feeds_are_kept_from_its_first_event_on,
    links_that_were_not_followed_are_kept,
);

/// An application that mails about each payment, per account (`mail`) and for all accounts together
/// (`digest`).
struct Office {
    tidelock: Tidelock,
    mailed: Observed,
    digested: Observed,
    /// Whether handlers fail.
    broken: Arc<AtomicBool>,
    running: Running,
}

impl Office {
    async fn open(stage: &TestStore) -> Self {
        let tidelock = stage.tidelock().await;
        let (mailed, digested, broken) = (Observed::default(), Observed::default(), Arc::default());
        let mail = on_any().in_streams("account-").retry(Retry::never());
        let digest = mail.clone().to(|_: &StoredEvent| "all");
        let app = tidelock.app().worker(brisk("teller"));
        let app = app.reaction("mail", mail, handler(&mailed, &broken));
        let app = app.reaction("digest", digest, handler(&digested, &broken));
        Self { mailed, digested, broken, running: Running::start(app), tidelock }
    }

    fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }

    /// Makes a payment and waits until both reactions have handled it.
    async fn paid(&self, id: &str) -> AggregateRef<Account> {
        let account = self.tidelock.aggregate::<Account>(id);
        let handled = self.digested.count() + 1;
        account.execute(pay(1)).await.unwrap();
        self.digested.until(handled).await;
        self.mailed.until(handled).await;
        self.quiet().await;
        account
    }

    async fn quiet(&self) {
        until_quiet(&self.tidelock, "mail").await;
        until_quiet(&self.tidelock, "digest").await;
    }

    async fn item(&self, queue: &str, key: &str) -> Item {
        let item = ItemRef::parse(queue, key).unwrap();
        self.tidelock.store().item(&item).await.unwrap().unwrap()
    }

    async fn cursor(&self, reaction: &str, target: &str) -> Item {
        self.item(&format!("~reaction/{reaction}"), target).await
    }

    /// The versions of the existing links.
    async fn links(&self) -> Vec<u64> {
        let stream = StreamName::new("~links/digest/all").unwrap();
        let links = self.tidelock.store().read_whole_stream(&stream).await.unwrap();
        links.iter().map(|link| link.version.get()).collect()
    }

    /// Removes links at once, instead of a minute after the closing.
    async fn remove_links(&self) {
        let removal = ItemRef::parse("~link-removal", "digest").unwrap();
        let now = self.tidelock.store().now().await.unwrap();
        let asked = self.item("~link-removal", "digest").await;
        assert!(
            asked.due.is_some_and(|due| due > now),
            "a closing asks for it, for later: {asked:?}"
        );
        let wake = Commit::new().wake(Wake::at(removal, When::NOW));
        self.tidelock.store().commit(wake).await.unwrap().committed().unwrap();
        until("links were removed", async || {
            let removal = self.item("~link-removal", "digest").await;
            removal.due.is_none() && removal.holder.is_none() && removal.forget_at.is_some()
        })
        .await;
    }
}

fn handler(
    seen: &Observed,
    broken: &Arc<AtomicBool>,
) -> impl Fn(StoredEvent, ReactionCtx) -> std::future::Ready<Result<(), HandlerError>>
+ Clone
+ Send
+ Sync
+ 'static {
    let (seen, broken) = (seen.clone(), broken.clone());
    move |event, _| {
        std::future::ready(match broken.load(Ordering::SeqCst) {
            true => Err(HandlerError::again("no stamps")),
            false => {
                seen.note(format!("{} {}", event.stream, event.version));
                Ok(())
            }
        })
    }
}

/// CLOSE-8. Schedule 106.
async fn the_cursor_on_a_closed_stream_is_forgotten_and_no_other_is(stage: TestStore) {
    let office = Office::open(&stage).await;
    let (seven, eight) = (office.paid("7").await, office.paid("8").await);
    office.paid("8").await;
    eight.archive_to(discard).keep_last(1).await.unwrap();
    eight.archive_to(discard).restart().await.unwrap();
    assert_eq!(office.cursor("mail", "account-7").await.forget_at, None);
    let before = office.tidelock.store().now().await.unwrap();
    seven.archive_to(discard).close().await.unwrap();
    let after = office.tidelock.store().now().await.unwrap();
    let forgotten = office.cursor("mail", "account-7").await;
    assert_eq!(forgotten.at.get(), 1, "it says how far it was until then");
    let moment = forgotten.forget_at.expect("it is to be forgotten");
    assert!((before.plus(limits::ITEM_MEMORY)..=after.plus(limits::ITEM_MEMORY)).contains(&moment));
    for (reaction, target, at) in [("mail", "account-8", 2), ("digest", "all", 3)] {
        let kept = office.cursor(reaction, target).await;
        assert_eq!((kept.at.get(), kept.forget_at), (at, None), "{reaction} {target}");
    }
    office.running.stop().await;
    if stage.is_simulated() {
        tokio::time::advance(limits::ITEM_MEMORY).await;
        let store = stage.store().await;
        note(&Tidelock::over(store.clone()), "diary", "a store in memory sweeps with its commits")
            .await;
        let mut left =
            store.rows(ItemQuery::new(ItemFilter::queue("~reaction/mail"))).all().await.unwrap();
        assert_eq!(left.remove(0).item.key.as_str(), "account-8");
        assert_eq!(left, []);
    }
}

/// CLOSE-8.
async fn a_cursor_with_something_left_to_do_is_kept_until_a_close_finds_it_done(stage: TestStore) {
    let office = Office::open(&stage).await;
    let account = office.paid("7").await;
    office.set_broken(true);
    account.execute(pay(1)).await.unwrap();
    until_blocked(&office.tidelock, "mail", "account-7").await;
    let close =
        || account.archive_to(discard).ignore_reaction("mail").ignore_reaction("digest").close();
    close().await.unwrap();
    let kept = office.cursor("mail", "account-7").await;
    assert_eq!((kept.at.get(), kept.mark.get(), kept.blocked, kept.forget_at), (1, 2, true, None));
    office.set_broken(false);
    office.tidelock.reactions().unblock(&ReactionFilter::named("mail")).await.unwrap();
    until_quiet(&office.tidelock, "mail").await;
    assert_eq!(office.cursor("mail", "account-7").await.forget_at, None);
    close().await.unwrap();
    assert!(office.cursor("mail", "account-7").await.forget_at.is_some());
    office.running.stop().await;
}

/// CLOSE-8. Schedule 106. The target itself is kept: any stream may feed it next.
async fn dangling_links_are_removed_and_the_target_continues(stage: TestStore) {
    let office = Office::open(&stage).await;
    for _ in 0..2 {
        office.paid("7").await;
    }
    let account = office.paid("7").await;
    account.archive_to(discard).close().await.unwrap();
    assert_eq!(office.links().await, [1, 2, 3]);
    office.remove_links().await;
    assert_eq!(office.links().await, [0; 0]);
    let target = office.cursor("digest", "all").await;
    assert_eq!((target.at.get(), target.forget_at), (3, None));
    office.paid("8").await;
    assert_eq!(office.links().await, [4]);
    assert_eq!(
        office.digested.lines(),
        ["account-7 1", "account-7 2", "account-7 3", "account-8 1"]
    );
    office.running.stop().await;
}

/// CLOSE-8. Links are removed from the oldest on, as far as all of them are dangling.
async fn links_of_a_target_that_an_open_stream_feeds_are_kept_from_its_first_event_on(
    stage: TestStore,
) {
    let office = Office::open(&stage).await;
    let (_, eight, seven) =
        (office.paid("7").await, office.paid("8").await, office.paid("7").await);
    seven.archive_to(discard).close().await.unwrap();
    office.remove_links().await;
    assert_eq!(office.links().await, [2, 3]);
    let target = office.cursor("digest", "all").await;
    assert_eq!((target.at.get(), target.forget_at), (3, None));
    office.paid("8").await;
    let all = ["account-7 1", "account-8 1", "account-7 2", "account-8 2"];
    assert_eq!(office.digested.lines(), all, "each once");
    eight.archive_to(discard).close().await.unwrap();
    office.remove_links().await;
    assert_eq!(office.links().await, [0; 0]);
    office.running.stop().await;
}

/// CLOSE-8.
async fn links_that_were_not_followed_are_kept(stage: TestStore) {
    let office = Office::open(&stage).await;
    let account = office.paid("7").await;
    office.set_broken(true);
    account.execute(pay(1)).await.unwrap();
    until_blocked(&office.tidelock, "digest", "all").await;
    account
        .archive_to(discard)
        .ignore_reaction("mail")
        .ignore_reaction("digest")
        .close()
        .await
        .unwrap();
    office.remove_links().await;
    assert_eq!(office.links().await, [2]);
    let target = office.cursor("digest", "all").await;
    assert_eq!((target.at.get(), target.mark.get(), target.blocked), (1, 2, true));
    office.running.stop().await;
}
