//! Reactions in real processes, which are killed, stopped and continued in the middle of a handler.

use nix::sys::signal::Signal;
use serde_json::json;
use tidelock::AppBuilder;
use tidelock::postgres::PostgresStore;
use tidelock::prelude::*;
use tidelock::store::{
    Bounds, Commit, ExpectedRevision, RawJson, RecordKey, RecordWrite, StoreExt, StoredEvent,
};
use tidelock_test_stage::{LEASE, Meeting, Role, TestStore, brisk, for_real, note, text, until};

use crate::stage::{target, until_blocked};

fn meeting_on(stage: &TestStore) -> Meeting {
    Meeting::on(stage, "processes::a_child")
}

/// The child process; does nothing by itself.
#[tokio::test]
async fn a_child() {
    let Some(role) = Role::ours() else { return };
    let app = match role.name.as_str() {
        "rows" | "rows again" => in_own_tables(role.clone()).await,
        "bomb" => explosive(role.clone()).await,
        _ => patient(role.clone()).await,
    };
    let app = app.route_lease(LEASE).worker(brisk(&role.name)).build().unwrap();
    app.run_until(role.allowed(&format!("stop {}", role.name))).await.unwrap();
    role.note(&format!("ended {}", role.name));
}

/// Waits inside the handler until it is allowed to continue, then counts.
async fn patient(role: Role) -> AppBuilder {
    let tidelock = Tidelock::open(&role.url).await.unwrap();
    tidelock.app().reaction(
        "count",
        on_any().lease(LEASE),
        move |_: StoredEvent, ctx: ReactionCtx| {
            let role = role.clone();
            async move {
                role.note(&format!("begun {} {}", role.name, ctx.effect_key()));
                role.allowed(&format!("go {}", role.name)).await;
                ctx.write(RecordWrite::add(&RecordKey::new("count")?, 1, Bounds::NONE))?;
                role.note(&format!("handled {}", role.name));
                Ok(())
            }
        },
    )
}

/// Kills its process.
async fn explosive(role: Role) -> AppBuilder {
    let tidelock = Tidelock::open(&role.url).await.unwrap();
    let source = on_any().lease(LEASE).max_crashes(2);
    tidelock.app().reaction("deadly", source, move |event: StoredEvent, _| {
        let role = role.clone();
        async move {
            role.note(&format!("handling {}", text(&event)));
            if text(&event) == "bomb" {
                std::process::abort();
            }
            Ok(())
        }
    })
}

/// Writes its own row, and waits before the ack.
async fn in_own_tables(role: Role) -> AppBuilder {
    let tidelock = Tidelock::open(&role.url).await.unwrap();
    tidelock.app().reaction(
        "rows",
        on_any().lease(LEASE),
        move |event: StoredEvent, ctx: ReactionCtx| {
            let role = role.clone();
            async move {
                let own = ctx.postgres().await?;
                own.execute("INSERT INTO handled VALUES ($1)", &[&event.id.to_string()]).await?;
                role.note(&format!("written {}", role.name));
                role.allowed(&format!("go {}", role.name)).await;
                Ok(())
            }
        },
    )
}

/// Schedule 20. REACT-6.
async fn a_stopped_process_that_resumes_writes_nothing(stage: TestStore) {
    let (tidelock, meeting) = (stage.tidelock().await, meeting_on(&stage));
    note(&tidelock, "diary", "x").await;
    let mut first = meeting.start("first");
    meeting.until_noted("begun first").await;
    meeting.stop(&first).await;
    meeting.allow("go second");
    let mut second = meeting.start("second");
    meeting.until_noted("handled second").await;
    let acked = async || target(&tidelock, "count", "diary").await.is_some_and(|t| t.lag() == 0);
    until("the second has acked", acked).await;

    first.signal(Signal::SIGCONT);
    meeting.allow("go first");
    meeting.allow("stop first");
    meeting.allow("stop second");
    first.until_ended().await;
    second.until_ended().await;
    let key = RecordKey::new("count").unwrap();
    let count = tidelock.store().get_one(&key).await.unwrap().into_live().unwrap().value;
    assert_eq!(count.as_str(), "1", "{:?}", meeting.notes());
    let keys: Vec<String> = meeting.notes().iter().filter_map(|line| begun_with(line)).collect();
    assert_eq!(keys.len(), 2, "both were at it: {:?}", meeting.notes());
    assert_eq!(keys[0], keys[1], "under the same key");
    let target = target(&tidelock, "count", "diary").await.unwrap();
    assert_eq!((target.at.get(), target.failures), (1, 0));
}

fn begun_with(line: &str) -> Option<String> {
    line.strip_prefix("begun ")?.split(' ').nth(1).map(str::to_owned)
}

/// Schedule 24. REACT-5.
async fn an_event_that_kills_its_process_each_time_is_blocked(stage: TestStore) {
    let (tidelock, meeting) = (stage.tidelock().await, meeting_on(&stage));
    note(&tidelock, "diary", "bomb").await;
    for _ in 0..2 {
        meeting.start("bomb").until_ended().await;
    }
    let mut third = meeting.start("bomb");
    let blocked = until_blocked(&tidelock, "deadly", "diary").await;
    assert_eq!((blocked.expiries, blocked.failures, blocked.lag()), (2, 0, 1));
    note(&tidelock, "other", "harmless").await;
    meeting.until_noted("handling harmless").await;
    meeting.allow("stop bomb");
    third.until_ended().await;
    let deaths = meeting.notes().iter().filter(|line| line.as_str() == "handling bomb").count();
    assert_eq!(deaths, 2, "two processes died of it and the third did not: {:?}", meeting.notes());
}

/// Schedule 27. REACT-11, with the user's own table.
async fn rows_of_a_process_that_is_killed_before_its_ack_are_not_there(stage: TestStore) {
    let (tidelock, meeting) = (stage.tidelock().await, meeting_on(&stage));
    let store = PostgresStore::open(&stage.url().unwrap()).await.unwrap();
    let own = store.begin().await.unwrap();
    own.execute("CREATE TABLE IF NOT EXISTS handled (event text NOT NULL)", &[]).await.unwrap();
    own.execute("DELETE FROM handled", &[]).await.unwrap();
    let made = RecordWrite::put(
        &RecordKey::new("made").unwrap(),
        ExpectedRevision::Any,
        RawJson::new(&json!(true)).unwrap(),
    );
    own.commit(Commit::new().write(made)).await.unwrap().committed().unwrap();

    note(&tidelock, "diary", "x").await;
    let first = meeting.start("rows");
    meeting.until_noted("written rows").await;
    drop(first);
    meeting.allow("go rows again");
    let mut again = meeting.start("rows again");
    let acked = async || target(&tidelock, "rows", "diary").await.is_some_and(|t| t.lag() == 0);
    until("it is acked", acked).await;
    meeting.allow("stop rows again");
    again.until_ended().await;
    let own = store.begin().await.unwrap();
    let count: i64 = own.query("SELECT count(*) FROM handled", &[]).await.unwrap()[0].get(0);
    assert_eq!(count, 1, "{:?}", meeting.notes());
}

mod sqlite {
    use super::*;

    #[test]
    fn a_stopped_process_that_resumes_writes_nothing() {
        for_real(TestStore::sqlite(), super::a_stopped_process_that_resumes_writes_nothing);
    }

    #[test]
    fn an_event_that_kills_its_process_each_time_is_blocked() {
        for_real(TestStore::sqlite(), super::an_event_that_kills_its_process_each_time_is_blocked);
    }
}

mod postgres {
    use super::*;

    #[test]
    fn a_stopped_process_that_resumes_writes_nothing() {
        for_real(TestStore::postgres(), super::a_stopped_process_that_resumes_writes_nothing);
    }

    #[test]
    fn an_event_that_kills_its_process_each_time_is_blocked() {
        for_real(
            TestStore::postgres(),
            super::an_event_that_kills_its_process_each_time_is_blocked,
        );
    }

    #[test]
    fn rows_of_a_process_that_is_killed_before_its_ack_are_not_there() {
        for_real(
            TestStore::postgres(),
            super::rows_of_a_process_that_is_killed_before_its_ack_are_not_there,
        );
    }
}
