//! Operators' commands.

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock::runs::Overlap;

use crate::harness::{Shop, append, block, counted, mail, wake};

on_files_and_postgres!(
    unblocked_items_continue_where_they_stopped,
    a_reset_asks_first_and_starts_over,
    a_target_goes_on_without_the_event_that_blocks_it,
    a_subject_is_erased_and_its_events_stay,
    items_are_deferred_and_prioritized,
    a_dry_run_does_nothing,
    jobs_are_listed_discarded_and_cancelled,
    what_is_paused_is_listed_and_resumed,
    a_schedule_is_created_paused_triggered_and_deleted,
);

fn item(shop: &Shop, key: &str) -> Value {
    shop.json(&["leases", "--key", key]).remove(0)
}

fn two_blocked(shop: &Shop) {
    shop.with(|store| async move {
        block(&*store, "mail", "a", "no address").await;
        block(&*store, "mail", "b", "no address").await;
    });
}

fn unblocked_items_continue_where_they_stopped(shop: &Shop) {
    two_blocked(shop);
    assert_eq!(shop.ok(&["unblock", "--queue", "mail", "--key", "a"]), "unblocked: 1 of 1 items\n");
    assert_eq!((&item(shop, "a")["state"], &item(shop, "a")["at"]), (&json!("due"), &json!(1)));
    assert_eq!(item(shop, "b")["state"], json!("blocked"));
    let all = shop.json(&["unblock", "--queue", "*"]);
    assert_eq!(all, [json!({ "done": "unblocked", "matched": 1, "changed": 1 })]);
    let none = shop.run(&["unblock", "--queue", "mail"]);
    assert_eq!((none.code, none.out.as_str()), (0, "unblocked: 0 of 0 items\n"), "{none:?}");
    assert_eq!(
        shop.run(&["unblock"]).code,
        2,
        "without a name nothing is selected, instead of everything"
    );
}

/// REACT-28, CMD-1.
fn a_target_goes_on_without_the_event_that_blocks_it(shop: &Shop) {
    shop.with(|store| async move {
        let orders = ["north", "poison", "south"].map(|text| json!(text));
        append(&*store, "order-1", "placed", &orders).await;
        mail(&store, 3).await;
    });
    let blocked = || shop.json(&["reactions", "mail", "--blocked"]);
    assert_eq!(blocked()[0]["at"], json!(1));
    let skip = |more: &[&str]| {
        let meant = ["skip", "--reaction", "mail", "--target", "order-1", "--reason", "a test"];
        shop.run(&[&meant[..], more].concat())
    };
    let dry = skip(&["--dry-run"]);
    assert!(dry.code == 0 && dry.err.contains("would be skipped"), "{dry:?}");
    assert_eq!(skip(&[]).code, 2, "it is irreversible");
    assert_eq!(blocked().len(), 1, "nothing was done");
    let skipped = skip(&["--yes"]);
    assert!(skipped.code == 0 && skipped.out.contains("is skipped"), "{skipped:?}");
    assert_eq!(skip(&["--yes"]).code, 4, "it is not blocked any more");
    let mailed = shop.with(|store| async move {
        mail(&store, 3).await;
        counted(&*store, "mailed/order-1").await
    });
    assert_eq!(mailed, 2);
    let [event] = &shop.json(&["reactions", "--skipped"])[..] else { panic!("one was skipped") };
    assert_eq!((&event["version"], &event["reason"]), (&json!(2), &json!("a test")));
    assert_eq!(event["error"], json!("an order without an address"));
    assert!(shop.ok(&["reactions", "tour", "--skipped"]).is_empty());
}

#[derive(Debug, Clone, Event)]
enum MemberEvent {
    Joined { name: tidelock::events::Personal<String> },
}

#[derive(Debug, Default, Clone)]
struct Member {
    names: Vec<Option<String>>,
}

impl Aggregate for Member {
    const KIND: &'static str = "member";
    type Event = MemberEvent;

    fn apply(&mut self, MemberEvent::Joined { name }: &MemberEvent) {
        self.names.push(name.get().cloned());
    }
}

/// CMD-15, CMD-1.
fn a_subject_is_erased_and_its_events_stay(shop: &Shop) {
    let names = || {
        shop.with(|store| async move {
            let tidelock = Tidelock::over(store);
            tidelock.aggregate::<Member>("club").load().await.unwrap().state.names.clone()
        })
    };
    shop.with(|store| async move {
        let club = Tidelock::over(store).aggregate::<Member>("club");
        for (subject, name) in [("user-7", "Ada"), ("user-8", "Bob"), ("user-7", "Ada")] {
            let name = tidelock::events::Personal::new(subject, name.to_owned());
            club.append(MemberEvent::Joined { name }).await.unwrap();
        }
    });
    let dry = shop.run(&["erase", "user-7", "--dry-run"]);
    assert!(dry.code == 0 && dry.err.contains("in 2 events would be erased"), "{dry:?}");
    assert_eq!(shop.run(&["erase", "user-7"]).code, 2, "it is irreversible");
    assert_eq!(names(), ["Ada", "Bob", "Ada"].map(|name| Some(name.to_owned())));
    assert_eq!(shop.json(&["erase", "user-7", "-y"]), [json!({ "done": "erased", "events": 2 })]);
    assert_eq!(names(), [None, Some("Bob".to_owned()), None]);
    let again = shop.ok(&["erase", "user-7", "-y"]);
    assert!(again.contains("in 0 events"), "an interrupted one is continued like this: {again}");
}

/// JOB-7, CMD-1.
fn jobs_are_listed_discarded_and_cancelled(shop: &Shop) {
    shop.with(|store| async move {
        let queue = Tidelock::over(store.clone()).queue("mail");
        for key in ["a", "b", "c"] {
            queue.enqueue(key).data(&json!({ "to": key })).await.unwrap();
        }
        block(&*store, "mail", "a", "no address").await;
        block(&*store, "mail", "b", "no address").await;
    });
    let states = |args: &[&str]| -> Vec<String> {
        let jobs = shop.json(&[&["jobs", "--queue", "mail"], args].concat());
        jobs.iter()
            .map(|job| {
                format!("{} {}", job["key"].as_str().unwrap(), job["state"].as_str().unwrap())
            })
            .collect()
    };
    assert_eq!(states(&[]), ["a blocked", "b blocked", "c queued"]);
    assert_eq!(states(&["--state", "blocked", "--key", "b*"]), ["b blocked"]);
    let discard = ["discard", "--queue", "mail", "--reason", "closed account"];
    let asked = shop.run(&discard);
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{asked:?}");
    let dry = shop.run(&[&discard[..], &["--dry-run"]].concat());
    assert!(dry.code == 0 && dry.err.contains("2 blocked jobs"), "{dry:?}");
    assert_eq!(states(&["--state", "blocked"]).len(), 2, "nothing was done");
    assert_eq!(shop.ok(&[&discard[..], &["--key", "a", "-y"]].concat()), "discarded: 1 jobs\n");
    let more = shop.json(&[&discard[..], &["--unfinished", "-y"]].concat());
    assert_eq!(more, [json!({ "done": "discarded", "changed": 2 })]);
    assert!(states(&[]).is_empty());
    assert_eq!(states(&["--state", "cancelled"]), ["b cancelled", "c cancelled"]);
    let discarded = shop.json(&["jobs", "--state", "discarded"]);
    assert_eq!(discarded[0]["reason"], json!("closed account"));
    assert_eq!(shop.run(&["jobs", "--state", "dead"]).code, 2);
}

/// JOB-10.
fn what_is_paused_is_listed_and_resumed(shop: &Shop) {
    shop.with(|store| async move {
        wake(&*store, "mail", "a", 1).await;
        wake(&*store, "~reaction/invoice", "a", 1).await;
        Tidelock::over(store).start("pay", "pay-1", &json!(7)).version(1).await.unwrap();
    });
    let early = shop.run(&["pause", "--queue", "post", "--reason", "not yet"]);
    assert!(early.code == 0 && early.err.contains("no item in queue \"post\" yet"), "{early:?}");
    assert!(shop.ok(&["resume", "--queue", "post"]).contains("is resumed"));
    for (kind, name) in [("--queue", "mail"), ("--reaction", "invoice"), ("--workflow", "pay")] {
        shop.ok(&["pause", kind, name, "--reason", "deploying"]);
    }
    let paused = shop.json(&["pause"]);
    assert_eq!(paused.len(), 3, "{paused:?}");
    assert_eq!(paused[0]["subject"], json!({ "kind": "queue", "name": "mail" }));
    assert!(shop.ok(&["pause"]).contains("deploying"));
    assert!(shop.ok(&["resume", "--queue", "mail"]).contains("is resumed"));
    assert!(shop.ok(&["resume", "--queue", "mail"]).contains("was not paused"));
    shop.ok(&["resume", "--reaction", "invoice"]);
    shop.ok(&["resume", "--workflow", "pay"]);
    assert!(shop.json(&["pause"]).is_empty());
    assert_eq!(shop.run(&["resume"]).code, 2);
    assert_eq!(shop.run(&["pause", "--queue", "a", "--reaction", "b"]).code, 2);
}

/// JOB-13.
fn a_schedule_is_created_paused_triggered_and_deleted(shop: &Shop) {
    let create = ["schedules", "nightly", "--cron", "30 2 * * *", "--zone", "Europe/Berlin"];
    let with = |more: &[&'static str]| [&create[..], more].concat();
    let jobs = with(&["--queue", "reports", "--input", r#"{"of":"yesterday"}"#, "--skip-overlap"]);
    shop.with(|store| async move { drop(store) });
    shop.ok(&jobs);
    shop.with(|store| async move {
        let nightly = Schedule::cron("30 2 * * *").zone("Europe/Berlin").overlap(Overlap::Skip);
        let nightly = nightly.enqueues_in("reports", &json!({ "of": "yesterday" }));
        let schedules = Tidelock::over(store).schedules();
        let before = schedules.get("nightly").await.unwrap().unwrap();
        let same = schedules.put("nightly", nightly).await.unwrap();
        assert_eq!(same, before, "as the library creates it");
    });
    for wrong in [
        &create[..],
        &with(&["--queue", "a", "--workflow", "b"]),
        &["schedules", "nightly", "--queue", "a"],
    ] {
        assert_eq!(shop.run(wrong).code, 2, "{wrong:?}");
    }
    assert!(shop.run(&["schedules", "odd", "--cron", "every day", "--queue", "a"]).code != 0);
    assert!(shop.ok(&["schedules"]).contains("job in reports"));
    assert!(shop.ok(&["schedules", "nightly", "--pause"]).contains("paused"));
    let triggered = shop.json(&["schedules", "nightly", "--trigger"]).remove(0);
    let jobs = shop.json(&["jobs", "--queue", "reports"]);
    assert_eq!((jobs.len(), &jobs[0]["key"]), (1, &triggered["last_job"]));
    assert_eq!(shop.json(&["schedules", "nightly", "--resume"])[0]["paused"], json!(false));
    assert_eq!(shop.run(&["schedules", "nightly", "--delete"]).code, 2, "it asks");
    shop.ok(&["schedules", "nightly", "--delete", "-y"]);
    assert!(shop.json(&["schedules"]).is_empty());
    assert_eq!(shop.run(&["schedules", "--pause"]).code, 2);
}

/// CMD-1.
fn a_reset_asks_first_and_starts_over(shop: &Shop) {
    two_blocked(shop);
    let asked = shop.run(&["reset", "--queue", "mail"]);
    assert_eq!(asked.code, 2, "{asked:?}");
    assert!(asked.err.contains("2 items") && asked.err.contains("--yes"), "{asked:?}");
    assert_eq!(item(shop, "a")["at"], json!(1), "nothing was done");
    assert_eq!(
        shop.ok(&["reset", "--queue", "mail", "--key", "a", "--yes"]),
        "reset: 1 of 1 items\n"
    );
    assert_eq!((&item(shop, "a")["state"], &item(shop, "a")["at"]), (&json!("due"), &json!(0)));
}

fn items_are_deferred_and_prioritized(shop: &Shop) {
    shop.with(|store| async move { wake(&*store, "mail", "a", 1).await });
    shop.ok(&["prioritize", "-5", "--queue", "mail"]);
    assert_eq!(item(shop, "a")["priority"], json!(-5));
    shop.ok(&["defer", "2030-01-31T12:00:00Z", "--queue", "mail"]);
    assert_eq!(
        (&item(shop, "a")["state"], &item(shop, "a")["hold"]),
        (&json!("waiting"), &json!("2030-01-31T12:00:00.000000Z"))
    );
    let too_much = shop.run(&["prioritize", "500", "--queue", "mail"]);
    assert_eq!(too_much.code, 2, "{too_much:?}");
    assert!(too_much.err.contains("not between -100 and 100"), "{too_much:?}");
    assert_eq!(shop.run(&["defer", "tomorrow", "--queue", "mail"]).code, 2);
}

/// CMD-1.
fn a_dry_run_does_nothing(shop: &Shop) {
    two_blocked(shop);
    let before = shop.json(&["leases"]);
    for args in [
        &["unblock", "--queue", "mail", "--dry-run"][..],
        &["reset", "--queue", "mail", "--dry-run"],
        &["defer", "5m", "--queue", "mail", "--dry-run"],
        &["prioritize", "5", "--queue", "mail", "--dry-run"],
    ] {
        let said = shop.run(args);
        assert_eq!(said.code, 0, "{said:?}");
        assert!(said.err.contains("dry run: 2 items would be"), "{said:?}");
        assert!(said.out.contains("no address"), "{said:?}");
    }
    assert_eq!(shop.json(&["leases"]), before);
}

#[test]
fn migrate_creates_a_store_and_checks_it() {
    let shop = Shop::sqlite();
    let missing = shop.run(&["migrate", "--check"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.out.contains("is not up to date"), "{missing:?}");
    assert!(!std::path::Path::new(&shop.path("shop.db")).exists());
    assert!(shop.ok(&["migrate"]).contains("is up to date (schema 2)"));
    assert_eq!(shop.json(&["migrate", "--check"])[0]["up_to_date"], json!(true));
    assert_eq!(shop.ok(&["streams"]), "");
    let none = shop.run(&["events"]);
    assert!(none.code == 0 && none.err.contains("no such event"), "{none:?}");
}

/// Schedules 77 and 105. The copy overwrites the file, so that only the command can tell.
#[test]
fn after_a_declared_restore_no_position_is_issued_again() {
    let shop = Shop::sqlite();
    let note = |times: usize| {
        let numbers: Vec<_> = (0..times).map(|number| json!(number)).collect();
        shop.with(|store| async move { append(&*store, "order-1", "placed", &numbers).await });
        shop.json(&["events"]).last().unwrap()["position"].as_u64().unwrap()
    };
    let missing = shop.run(&["migrate", "--restored"]);
    assert_eq!(missing.code, 3, "a store that is not there was not restored: {missing:?}");
    assert_eq!(note(2), 2);
    let backup = std::fs::read(shop.path("shop.db")).unwrap();
    assert_eq!(note(3), 5);
    std::fs::write(shop.path("shop.db"), backup).unwrap();
    assert_eq!(shop.run(&["migrate", "--restored", "--check"]).code, 2);
    let restored = shop.run(&["migrate", "--restored"]);
    assert!(restored.code == 0 && restored.err.contains("continue above"), "{restored:?}");
    let position = note(1);
    assert!(position > 5, "position {position} was handed out before");
    assert_eq!(note(1), position + 1);
}

#[test]
fn a_restored_database_needs_no_declaration() {
    let said = Shop::postgres().run(&["migrate", "--restored"]);
    assert!(said.code == 0 && said.err.contains("needs no --restored"), "{said:?}");
}
