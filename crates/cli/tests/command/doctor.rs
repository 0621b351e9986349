//! Every kind of finding, provoked and diagnosed; and a healthy store. Here, findings about work
//! items and reactions.

mod claims;
mod closing;
mod runs;

use std::time::Duration;

use serde_json::{Value, json};
use tidelock::postgres::tokio_postgres::{self, NoTls};
use tidelock::prelude::*;
use tidelock::store::{
    Commit, ExpectedRevision, RawJson, RecordKey, Settlement, Store, StoreExt, StreamName,
};

use crate::harness::{PATIENCE, Shop, append, block, lease, lines, mail, mailing, wake};

on_files_and_postgres!(
    a_healthy_store_is_found_healthy,
    blocked_items_are_found_with_error_and_remedy,
    expired_leases_and_items_that_crash_workers_are_found,
    a_long_lease_without_progress_is_found,
    unserved_queues_are_found,
    unrouted_and_stopped_reactions_are_found,
    retries_and_expiring_leases_are_only_warnings,
    many_findings_are_counted_and_a_few_are_shown,
);

/// The doctor's findings with zero patience, without information.
fn findings(shop: &Shop, more: &[&str]) -> (i32, Vec<Value>) {
    let said = shop.run(&[&["doctor", "--json", "--stuck-after", "0s"], more].concat());
    let findings =
        lines(&said.out).into_iter().filter(|finding| finding["severity"] != "info").collect();
    assert_eq!(said.err, "");
    (said.code, findings)
}

/// The only finding of this kind: its text, and its remedy.
fn only(shop: &Shop, kind: &str) -> (String, String) {
    let (code, findings) = findings(shop, &[]);
    assert_eq!(code, 1, "{findings:?}");
    let mut of_kind: Vec<_> = findings.iter().filter(|finding| finding["kind"] == kind).collect();
    let finding = of_kind.pop().unwrap_or_else(|| panic!("no {kind} among {findings:?}"));
    assert!(of_kind.is_empty(), "{findings:?}");
    let text = |field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    (format!("{}: {}", text("subject"), text("what")), remedy(finding))
}

/// Runs the remedy as pasted into a shell that does not know the store; with placeholders replaced.
fn paste(shop: &Shop, command: &str, filled: &[(&str, &str)]) -> crate::harness::Said {
    let command = filled
        .iter()
        .fold(command.to_owned(), |command, (blank, with)| command.replace(blank, with));
    let folder = std::path::Path::new(env!("CARGO_BIN_EXE_tidelock")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = std::process::Command::new("sh");
    shell
        .args(["-c", &command])
        .env("PATH", path)
        .env_remove("TIDELOCK_STORE")
        .env_remove("DATABASE_URL")
        .current_dir(shop.folder.path());
    crate::harness::said(shell)
}

/// The commands of a finding, which are also those printed for people.
fn commands(finding: &Value) -> Vec<String> {
    let actions = finding["remedy"]["actions"].as_array().unwrap_or_else(|| panic!("{finding}"));
    actions.iter().map(|action| action["command"].as_str().unwrap().to_owned()).collect()
}

/// The whole text of the remedy.
fn remedy(finding: &Value) -> String {
    let actions = finding["remedy"]["actions"].as_array().unwrap_or_else(|| panic!("{finding}"));
    let commands = actions.iter().map(|action| action["command"].as_str().unwrap());
    finding["remedy"]["advice"].as_str().into_iter().chain(commands).collect::<Vec<_>>().join("\n")
}

/// CMD-5.
fn a_healthy_store_is_found_healthy(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!("north"), json!("south")]).await;
        mail(&store, 2).await;
        wake(&*store, "post", "a", 1).await;
        let lease = lease(&*store, "post", PATIENCE).await;
        store.commit(Commit::new().settle(lease.ack())).await.unwrap().committed().unwrap();
        done_with_everything(&Tidelock::over(store)).await;
    });
    let (code, found) = findings(shop, &[]);
    assert_eq!((code, found), (0, Vec::new()));
    let told = shop.ok(&["doctor"]);
    assert!(
        told.contains("schema 2, up to date") && told.ends_with("nothing is wrong\n"),
        "{told}"
    );
}

/// A completed claim, a quota in use, and a closed stream.
async fn done_with_everything(tidelock: &Tidelock) {
    let claim = tidelock.claims().idempotency("pay:42").claim::<Value>().await.unwrap();
    let IdempotencyClaim::Won(won) = claim else { panic!("it is free") };
    won.complete(&json!("receipt")).await.unwrap();
    let _taken = tidelock.claims().quota("mails", 9).take(1).await.unwrap();
    append(&**tidelock.store(), "year-2025", "sold", &[json!(1)]).await;
    let year = StreamName::new("year-2025").unwrap();
    tidelock.archive_stream_to(&year, tidelock::closing::discard).close().await.unwrap();
}

/// CMD-5.
fn blocked_items_are_found_with_error_and_remedy(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!("poison")]).await;
        append(&*store, "order-2", "placed", &[json!("nowhere")]).await;
        mail(&store, 2).await;
    });
    let (what, remedy) = only(shop, "blocked");
    assert_eq!(
        what,
        "reaction \"mail\", target \"order-1\": blocked at 0, 1 behind: an order without an address"
    );
    assert!(
        remedy.contains("tidelock unblock --reaction mail --target order-1 --store "),
        "{remedy}"
    );
    let (what, remedy) = only(shop, "unrouted");
    assert!(
        what.contains("reaction \"tour\", event at position")
            && what.contains("there is no such town"),
        "{what}"
    );
    let printed = shop.run(&["doctor", "--stuck-after", "0s"]).out;
    for finding in findings(shop, &[]).1.iter().filter(|finding| finding["kind"] != "route") {
        let command = commands(finding).remove(0);
        assert!(printed.contains(&format!("    {command}\n")), "{command}: {printed}");
        let fixed = paste(shop, &command, &[]);
        assert_eq!(
            (fixed.code, fixed.out.as_str()),
            (0, "unblocked: 1 of 1 targets\n"),
            "{command}: {fixed:?}"
        );
    }
    assert!(remedy.contains("tidelock unblock"), "{remedy}");
}

fn expired_leases_and_items_that_crash_workers_are_found(shop: &Shop) {
    shop.with(|store| async move {
        wake(&*store, "mail", "a", 1).await;
        lease(&*store, "mail", Duration::from_micros(1)).await;
        wake(&*store, "post", "b", 1).await;
        for _ in 0..3 {
            lease(&*store, "post", Duration::from_micros(1)).await;
        }
    });
    let (what, _) = only(shop, "expired");
    assert!(
        what.starts_with("item \"a\" of queue \"mail\": the lease of worker \"worker-7\" expired"),
        "{what}"
    );
    let (what, remedy) = only(shop, "expiry_loop");
    assert!(what.starts_with("item \"b\" of queue \"post\": its lease expired 2 times"), "{what}");
    assert!(remedy.contains("tidelock defer 1h --queue post --key b"), "{remedy}");
}

/// CMD-5. Schedule 107: the doctor names it meanwhile.
fn a_long_lease_without_progress_is_found(shop: &Shop) {
    shop.with(|store| async move {
        wake(&*store, "mail", "a", 1).await;
        lease(&*store, "mail", PATIENCE * 60).await;
    });
    let (code, found) = findings(shop, &["--hung-after", "0s"]);
    assert_eq!((code, found.len()), (1, 1), "{found:?}");
    assert_eq!((&found[0]["kind"], &found[0]["severity"]), (&json!("hung"), &json!("error")));
    let what = found[0]["what"].as_str().unwrap();
    assert!(
        what.starts_with("worker \"worker-7\" holds it and has made no progress for"),
        "{what}"
    );
    assert!(remedy(&found[0]).contains("a shorter timeout"), "{found:?}");
    assert_eq!(findings(shop, &[]), (0, Vec::new()), "not before twice the handler's timeout");
}

fn unserved_queues_are_found(shop: &Shop) {
    shop.with(|store| async move {
        for key in ["a", "b", "c"] {
            wake(&*store, "mail", key, 1).await;
        }
    });
    let (what, _) = only(shop, "unserved");
    assert!(
        what.starts_with("queue \"mail\": no worker takes its due work: 3 items, the first for"),
        "{what}"
    );
    assert_eq!(
        shop.run(&["doctor", "--stuck-after", "1h"]).code,
        0,
        "with more patience there are fewer findings"
    );
}

fn unrouted_and_stopped_reactions_are_found(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!("north")]).await;
        mail(&store, 1).await;
        append(&*store, "order-1", "placed", &[json!("south")]).await;
    });
    let (code, found) = findings(shop, &[]);
    let routes: Vec<_> = found.iter().filter(|finding| finding["kind"] == "route").collect();
    assert_eq!((code, routes.len()), (1, 2), "{found:?}");
    assert!(
        routes[0]["what"].as_str().unwrap().starts_with("no worker routes its events"),
        "{found:?}"
    );
    assert!(remedy(routes[0]).contains("registers reaction \"mail\""), "{found:?}");
    shop.with(stop_the_route_of_mail);
    let (_, found) = findings(shop, &[]);
    let stopped = found
        .iter()
        .find(|finding| finding["what"].as_str().unwrap().contains("restored"))
        .expect("it stopped");
    let remedy = remedy(stopped);
    assert!(remedy.contains("tidelock reroute mail --from beginning --store "), "{remedy}");
    assert!(remedy.contains("tidelock unblock --queue '~route/mail' --store "), "{remedy}");
    for command in commands(stopped).iter().filter(|command| !command.contains("--from now")) {
        let yes = if command.contains("reroute") { " -y" } else { "" };
        let fixed = paste(shop, &format!("{command}{yes}"), &[]);
        assert_eq!(fixed.code, 0, "{command}: {fixed:?}");
    }
}

/// As if the store had been restored from a backup: the reaction is ahead of the log.
async fn stop_the_route_of_mail(store: std::sync::Arc<dyn Store>) {
    let key = RecordKey::new("~route/mail").unwrap();
    let record = store.get_one(&key).await.unwrap().into_live().unwrap();
    let mut cursor: Value = record.value.to().unwrap();
    cursor["position"] = json!(i64::MAX);
    store
        .put(&key, ExpectedRevision::Any, RawJson::new(&cursor).unwrap())
        .await
        .unwrap()
        .committed()
        .unwrap();
    let tidelock = Tidelock::over(store);
    let running = tidelock_test_stage::Running::start(mailing(&tidelock));
    tidelock_test_stage::until("the route has stopped", async || {
        tidelock.reactions().routes().await.unwrap().iter().any(|route| route.blocked)
    })
    .await;
    running.stop().await;
}

fn retries_and_expiring_leases_are_only_warnings(shop: &Shop) {
    shop.with(|store| async move {
        wake(&*store, "mail", "a", 1).await;
        let lease = lease(&*store, "mail", PATIENCE).await;
        let retry = Settlement::retry(lease.token(), PATIENCE, "the post is closed");
        store.commit(Commit::new().settle(retry)).await.unwrap().committed().unwrap();
    });
    let (code, found) = findings(shop, &[]);
    assert_eq!((code, found.len()), (0, 1), "{found:?}");
    assert_eq!((&found[0]["kind"], &found[0]["severity"]), (&json!("retrying"), &json!("warning")));
    assert!(found[0]["what"].as_str().unwrap().contains("the post is closed"), "{found:?}");
}

fn many_findings_are_counted_and_a_few_are_shown(shop: &Shop) {
    shop.with(|store| async move {
        for nth in 0..7 {
            block(&*store, "mail", &format!("a{nth}"), "no address").await;
        }
    });
    let (code, found) = findings(shop, &["--show", "2"]);
    assert_eq!((code, found.len()), (1, 3), "{found:?}");
    assert_eq!(found[2], json!({ "kind": "blocked", "more": 5 }));
    let told = shop.run(&["doctor", "--show", "2"]).out;
    assert!(
        told.contains("and 5 more like these") && told.ends_with("7 problems need attention\n"),
        "{told}"
    );
}

#[test]
fn a_session_that_holds_back_the_feed_is_found() {
    let shop = Shop::postgres();
    let (server, schema) = shop.url.split_once("?schema=").unwrap();
    let stay = format!(
        "BEGIN; SELECT {schema}.append_one('order-2', -1, gen_random_uuid(), 'placed', '1', '{{}}')"
    );
    let (url, visitor) = (shop.url.clone(), format!("{server}?application_name=visitor"));
    let (said, session) = shop.with(|store| async move {
        let (client, connection) = tokio_postgres::connect(&visitor, NoTls).await.unwrap();
        tokio::spawn(connection);
        let session: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        client.batch_execute(&stay).await.unwrap();
        append(&*store, "order-3", "placed", &[json!(1)]).await;
        let said = shop_said(&url);
        client.batch_execute("ROLLBACK").await.unwrap();
        (said, session)
    });
    let found = lines(&said.out);
    let held = found
        .iter()
        .find(|finding| finding["kind"] == "blockers")
        .unwrap_or_else(|| panic!("{said:?}"));
    assert!(held["what"].as_str().unwrap().contains("\"visitor\""), "{held}");
    assert!(remedy(held).contains(&format!("pg_terminate_backend({session})")), "{held}");
    assert_eq!(said.code, 1);
}

fn shop_said(url: &str) -> crate::harness::Said {
    crate::harness::said(crate::harness::bare(&[
        "doctor",
        "--json",
        "--stuck-after",
        "0s",
        "--store",
        url,
    ]))
}
