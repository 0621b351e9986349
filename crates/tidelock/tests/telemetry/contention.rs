//! Conflicts of decisions are logged and counted.

use serde_json::json;
use tidelock::prelude::*;
use tidelock::store::StoredEvent;
use tidelock::telemetry::CONTENDED;

use crate::breadcrumbs::{assert_discreet, begin};
use crate::capture::{CANARY, Said, said};
use crate::meter::metric;
use tidelock_test_stage::{Running, TestStore, append, brisk, note, on_every_store, until};

use crate::stage::until_quiet;

on_every_store!(
    a_conflict_is_logged_with_its_stream_and_attempts,
    a_reactions_conflict_is_logged_with_its_target_and_attempts,
);

#[derive(Debug, Default, Clone)]
struct Visits {
    count: i64,
}

#[derive(Debug, Event)]
struct Visited {
    by: String,
}

impl Aggregate for Visits {
    const KIND: &'static str = "visits";
    type Event = Visited;

    fn apply(&mut self, _: &Visited) {
        self.count += 1;
    }
}

impl Visits {
    fn visit(&self) -> Result<Visited, String> {
        Ok(Visited { by: CANARY.to_owned() })
    }
}

fn contended(field: &str, value: &str) -> Vec<Said> {
    said(field, value).into_iter().filter(|said| said.message == "contended").collect()
}

/// EVT-2, REACT-22.
async fn a_conflict_is_logged_with_its_stream_and_attempts(stage: TestStore) {
    let id = begin(&stage, "late");
    let (tidelock, other) = (stage.tidelock().await, stage.tidelock().await);
    let (visits, others) = (tidelock.aggregate::<Visits>(&id), other.aggregate::<Visits>(&id));
    let stream = format!("visits-{id}");
    visits.execute(Visits::visit).await.unwrap();
    assert!(contended("key", &stream).is_empty(), "there was no contention");

    // The first handle's cache is stale, and it learns that by its conflict.
    others.execute(Visits::visit).await.unwrap();
    let before = metric(CONTENDED, &[("by", "execute")]);
    let executed = visits.execute(Visits::visit).await.unwrap();
    assert_eq!((executed.attempts, visits.load().await.unwrap().count), (2, 3));
    let [late] = &contended("key", &stream)[..] else { panic!("it was late once") };
    assert_eq!(late.fields["attempts"], "1");
    assert!(metric(CONTENDED, &[("by", "execute")]) > before);

    others.execute(Visits::visit).await.unwrap();
    visits.operation_id("on its own").execute(Visits::visit).await.unwrap();
    assert_eq!(
        contended("key", &stream).len(),
        3,
        "the other had not seen the third visit, nor the operation the fourth"
    );
    assert_discreet();
}

/// REACT-22.
async fn a_reactions_conflict_is_logged_with_its_target_and_attempts(stage: TestStore) {
    let name = begin(&stage, "overtaken");
    let (tidelock, other) = (stage.tidelock().await, stage.tidelock().await);
    note(&tidelock, "diary", CANARY).await;
    let (source, id) = (on_any().in_streams("diary"), name.clone());
    let app = tidelock.app().worker(brisk("one")).reaction(
        &name,
        source,
        move |_: StoredEvent, ctx: ReactionCtx| {
            let (other, id) = (other.clone(), id.clone());
            async move {
                ctx.execute(&ctx.tidelock().aggregate(&id), Visits::visit).await?;
                append(&other, &format!("visits-{id}"), "visited", &json!({ "by": CANARY })).await;
                Ok(())
            }
        },
    );
    let running = Running::start(app);
    let visits = tidelock.aggregate::<Visits>(&name);
    until("both visits are there", async || visits.load().await.unwrap().count == 2).await;
    until_quiet(&tidelock, &name).await;
    running.stop().await;

    let [late] = &contended("by", &name)[..] else { panic!("it was late once") };
    assert_eq!((&*late.fields["key"], &*late.fields["attempts"]), ("diary", "1"));
    assert_eq!(metric(CONTENDED, &[("by", &name)]), 1.0);
    assert_discreet();
}
