//! Subjects of personal data over HTTP.

use serde_json::{Value, json};
use tidelock::events::Personal;
use tidelock::prelude::*;
use tidelock_test_stage::TestStore;

use crate::harness::{OPERATOR, READER, Server, WRITER};

#[derive(Debug, Clone, Event)]
enum MemberEvent {
    Joined { name: Personal<String> },
}

#[derive(Debug, Default, Clone)]
struct Member;

impl Aggregate for Member {
    const KIND: &'static str = "member";
    type Event = MemberEvent;

    fn apply(&mut self, _: &MemberEvent) {}
}

/// CMD-15, HTTP-2, HTTP-22.
async fn a_subject_is_erased_on_record(stage: TestStore) {
    let server = Server::start(&stage).await;
    let (operator, reader) = (server.client(OPERATOR), server.client(READER));
    let club = server.tidelock.aggregate::<Member>("club");
    for subject in ["user/7", "user-8", "user/7"] {
        let name = Personal::new(subject, "Ada".to_owned());
        club.append(MemberEvent::Joined { name }).await.unwrap();
    }
    let path = "/v1/subjects/user%2F7";
    let shown = reader.get(path).await.ok(200);
    assert_eq!(shown, json!({ "subject": "user/7", "events": 2, "erased_at": null }));
    let erase = format!("{path}/erase");
    assert_eq!(server.client(WRITER).post(&erase, &json!({})).await.status, 403);
    reader.get("/v1/subjects/nope").await.refused(404, "no-subject");
    operator.post("/v1/subjects/nope/erase", &json!({})).await.refused(404, "no-subject");
    assert_eq!(operator.post(&erase, &json!({})).await.ok(200)["events"], 2);
    let shown = reader.get(path).await.ok(200);
    assert_eq!((&shown["events"], shown["erased_at"] != Value::Null), (&json!(0), true));
    assert_eq!(operator.post(&erase, &json!({})).await.ok(200)["events"], 0, "it continues");
    assert_eq!(reader.get("/v1/subjects/user-8").await.ok(200)["events"], 1);
    let audited = reader.get("/v1/audit").await.ok(200).to_string();
    assert!(audited.contains("/v1/subjects/user%2F7/erase"), "{audited}");
}

over_sockets!(a_subject_is_erased_on_record);
