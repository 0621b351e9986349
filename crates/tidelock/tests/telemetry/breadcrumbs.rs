//! Leased, acked, retried, blocked, expired, lost, unrouted: each is logged in its span, and
//! counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::reactions::ResetEffects;
use tidelock::store::{LeaseRequest, QueueName, StoredEvent, WorkerName};
use tidelock::telemetry::{EXPIRED, HANDLED, LEASED, ROUTED, SETTLED, UNROUTED, WORKED};

use crate::capture::{self, CANARY, breadcrumbs, said, trail};
use crate::meter::{self, metric};
use tidelock_test_stage::{
    Observed, Running, TestStore, append, brisk, note, on_every_store, until,
};

use crate::stage::{target, until_blocked, until_quiet};

on_every_store!(
    successes_are_logged_in_the_span_of_their_lease_and_counted,
    failures_are_logged_with_their_error_until_the_block,
    an_expired_lease_is_logged_by_the_new_holder,
    a_lost_lease_is_logged_by_its_former_holder,
    an_unrouted_event_is_logged_with_its_position,
    an_unreadable_payload_is_logged_without_its_content,
);

/// Captures everything from here on. Returns a name for the case's reaction that is unique in this
/// process.
pub(crate) fn begin(stage: &TestStore, case: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    capture::listen();
    meter::count();
    let store =
        stage.url().map_or("memory".to_owned(), |url| url.split(':').next().unwrap().to_owned());
    format!("{case}-on-{store}-{}", COUNT.fetch_add(1, Ordering::SeqCst))
}

/// No payload was logged or counted so far.
pub(crate) fn assert_discreet() {
    capture::assert_discreet();
    meter::assert_discreet();
}

fn settled(reaction: &str, exit: &str) -> f64 {
    metric(SETTLED, &[("queue", &queue(reaction)), ("exit", exit)])
}

fn queue(reaction: &str) -> String {
    format!("~reaction/{reaction}")
}

async fn until_said(reaction: &str, words: &[&str]) {
    until(&format!("it said {words:?}"), async || trail(reaction) == words).await;
}

/// REACT-22.
async fn successes_are_logged_in_the_span_of_their_lease_and_counted(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "well"), stage.tidelock().await);
    note(&tidelock, "diary", CANARY).await;
    let app =
        tidelock
            .app()
            .worker(brisk("one"))
            .reaction(&name, on_any(), |_: StoredEvent, _| async { Ok(()) });
    let running = Running::start(app);
    until_said(&name, &["leased", "acked"]).await;
    running.stop().await;

    let [leased, acked] = &breadcrumbs(&name)[..] else { unreachable!("two were waited for") };
    assert_eq!((&*leased.fields["key"], &*leased.fields["mark"]), ("diary", "1"));
    assert_eq!(leased.fields["fence"], acked.fields["fence"]);
    let span = acked.span.as_ref().expect("it is said in a span");
    assert_eq!((&*span.message, &*span.fields["key"]), ("work", "diary"));
    assert_eq!(
        (&span.fields["queue"], &span.fields["fence"]),
        (&queue(&name), &acked.fields["fence"])
    );

    let of_queue = [("queue", &*queue(&name))];
    assert_eq!((metric(LEASED, &of_queue), metric(WORKED, &of_queue)), (1.0, 1.0));
    assert_eq!((settled(&name, "acked"), metric(EXPIRED, &of_queue)), (1.0, 0.0));
    let of_reaction = [("reaction", &*name)];
    assert_eq!((metric(ROUTED, &of_reaction), metric(HANDLED, &of_reaction)), (1.0, 1.0));
    assert_discreet();
}

/// REACT-22.
async fn failures_are_logged_with_their_error_until_the_block(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "badly"), stage.tidelock().await);
    note(&tidelock, "diary", CANARY).await;
    let source =
        on_any().retry(Retry::attempts(2).backoff(Backoff::fixed(Duration::from_millis(1))));
    let app =
        tidelock.app().worker(brisk("one")).reaction(&name, source, |_: StoredEvent, _| async {
            Err(HandlerError::again("the printer is on fire"))
        });
    let running = Running::start(app);
    until("four breadcrumbs are there", async || trail(&name).len() == 4).await;
    running.stop().await;

    // The end of one lease and the start of the next are logged by two threads.
    let mut by_lease = breadcrumbs(&name);
    by_lease.sort_by_key(|said| said.fields["fence"].parse::<u64>().unwrap());
    let trail: Vec<_> = by_lease.iter().map(|said| said.message.as_str()).collect();
    assert_eq!(trail, ["leased", "retried", "leased", "blocked"]);
    let failures = by_lease.into_iter().filter(|said| said.message != "leased");
    assert!(failures.into_iter().all(|said| said.fields["error"] == "the printer is on fire"));
    assert_eq!(
        (settled(&name, "retried"), settled(&name, "blocked"), settled(&name, "acked")),
        (1.0, 1.0, 0.0)
    );
    assert_discreet();
}

/// REACT-22.
async fn an_expired_lease_is_logged_by_the_new_holder(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "expired"), stage.tidelock().await);
    let app = || {
        tidelock
            .app()
            .worker(brisk("one"))
            .reaction(&name, on_any(), |_: StoredEvent, _| async { Ok(()) })
    };
    note(&tidelock, "diary", CANARY).await;
    let routing = Running::start(app().lanes(["unserved"]));
    until("it is routed", async || target(&tidelock, &name, "diary").await.is_some()).await;
    routing.stop().await;
    // A holder that dies: leased, never settled.
    let (queue, dead) = (QueueName::new(queue(&name)).unwrap(), WorkerName::new("dead").unwrap());
    let request = LeaseRequest::new(&queue, &dead, Duration::from_millis(50), 1);
    assert_eq!(tidelock.store().lease(request).await.unwrap().leases.len(), 1);

    let running = Running::start(app());
    until_said(&name, &["leased", "expired", "acked"]).await;
    running.stop().await;
    assert_eq!(breadcrumbs(&name)[1].fields["expiries"], "1");
    assert_eq!(metric(EXPIRED, &[("queue", queue.as_str())]), 1.0);
    assert_discreet();
}

/// REACT-22.
async fn a_lost_lease_is_logged_by_its_former_holder(stage: TestStore) {
    let (name, tidelock, begun) =
        (begin(&stage, "lost"), stage.tidelock().await, Observed::default());
    note(&tidelock, "diary", CANARY).await;
    let (noted, source) = (begun.clone(), on_any().lease(stage.lease()));
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction(&name, source, move |_: StoredEvent, ctx: ReactionCtx| {
        let noted = noted.clone();
        async move {
            noted.note("begun");
            if noted.count() == 1 {
                ctx.lost().cancelled().await;
            }
            Ok(())
        }
    });
    let running = Running::start(app);
    begun.until(1).await;
    // An operator's reset takes the lease away.
    tidelock.reactions().reset(&ReactionFilter::named(&name), ResetEffects::Keep).await.unwrap();
    until("both have ended", async || settled(&name, "lost") + settled(&name, "acked") == 2.0)
        .await;
    running.stop().await;

    let lost = breadcrumbs(&name).into_iter().find(|said| said.message == "lost").unwrap();
    let acked = breadcrumbs(&name).into_iter().find(|said| said.message == "acked").unwrap();
    assert_eq!((&*lost.fields["key"], &*acked.fields["key"]), ("diary", "diary"));
    assert_ne!(lost.fields["fence"], acked.fields["fence"], "it was another lease that ended well");
    assert_discreet();
}

/// REACT-22.
async fn an_unrouted_event_is_logged_with_its_position(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "astray"), stage.tidelock().await);
    let event = note(&tidelock, "diary", CANARY).await;
    let tries = Arc::new(AtomicU32::new(0));
    let source = on_any().to(move |_: &StoredEvent| match tries.fetch_add(1, Ordering::SeqCst) {
        0 => Err(HandlerError::again("no such street")),
        _ => Ok("somewhere".to_owned()),
    });
    let app =
        tidelock
            .app()
            .worker(brisk("one"))
            .reaction(&name, source, |_: StoredEvent, _| async { Ok(()) });
    let running = Running::start(app);
    let there = async || {
        target(&tidelock, &name, "somewhere").await.is_some_and(|target| target.lag() == 0)
    };
    until("the event found its way", there).await;
    until_quiet(&tidelock, &name).await;
    running.stop().await;

    let astray =
        said("reaction", &name).into_iter().find(|said| said.message == "unrouted").unwrap();
    assert_eq!(astray.fields["position"], event.position.to_string());
    assert_eq!(astray.fields["failure"], "no such street");
    assert_eq!(metric(UNROUTED, &[("reaction", &name)]), 1.0);
    assert_discreet();
}

#[derive(Debug, Event)]
struct Counted {
    _units: i64,
}

/// REACT-22.
async fn an_unreadable_payload_is_logged_without_its_content(stage: TestStore) {
    let (name, tidelock) = (begin(&stage, "garbled"), stage.tidelock().await);
    append(&tidelock, "shelf", "counted", &json!({ "_units": CANARY })).await;
    let app = tidelock.app().worker(brisk("one"));
    let app = app.reaction(&name, on::<Counted>(), |_: Recorded<Counted>, _| async { Ok(()) });
    let running = Running::start(app);
    let blocked = until_blocked(&tidelock, &name, "shelf").await;
    until_said(&name, &["leased", "blocked"]).await;
    running.stop().await;
    let error = blocked.error.unwrap();
    assert!(error.contains("expected i64") && !error.contains(CANARY), "{error}");
    assert_discreet();
}
