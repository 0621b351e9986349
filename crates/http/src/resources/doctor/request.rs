//! Translates the doctor's remedies to requests.

use serde::Serialize;
use serde_json::{Value, json};
use tidelock::doctor::{RemedyAction, RemedyTask};
use tidelock::runs::RunId;
use utoipa::ToSchema;

use super::super::durations::Millis;
use super::{RUNS, SCAN};

/// A request to this server.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = CureRequest)]
pub(crate) struct RemedyRequestDto {
    #[schema(example = "POST")]
    method: &'static str,
    /// The path, below the prefix that this server is mounted under.
    #[schema(example = "/v1/reactions/unblock")]
    path: String,
    /// The body.
    #[schema(value_type = Option<Object>)]
    body: Option<Value>,
    /// Fields to add to the body, whose values the operator has to find out first.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<String>, example = json!(["verdict"]))]
    add: &'static [&'static str],
}

/// The request that performs this action; `None` if it cannot be done from here.
pub(super) fn request(action: &RemedyAction) -> Option<RemedyRequestDto> {
    match action {
        RemedyAction::Unblock(work) => Some(of_work("unblock", work, json!({}))),
        RemedyAction::Defer { work, wait } => {
            let wait = Millis::at_most(wait.as_millis());
            Some(of_work("defer", work, json!({ "in_ms": wait })))
        }
        RemedyAction::Resume { run } => Some(of_run("resume", run, json!({}))),
        RemedyAction::Cancel { run } => {
            Some(of_run("cancel", run, json!({ "reason": "requested by an operator" })))
        }
        RemedyAction::Resolve { run, step } => {
            let resolve = of_run("resolve", run, json!({ "step": step }));
            Some(RemedyRequestDto { add: &["verdict"], ..resolve })
        }
        RemedyAction::Release { claim } => {
            Some(post("/v1/abandoned-claims/release".to_owned(), json!({ "claim": claim })))
        }
        RemedyAction::Reroute { reaction, from_beginning } => {
            let from = if *from_beginning { "beginning" } else { "now" };
            Some(post(
                "/v1/reactions/reroute".to_owned(),
                json!({ "reaction": reaction, "from": from }),
            ))
        }
        RemedyAction::ShowEvent { position } => {
            Some(get(format!("/v1/events?after={}&limit=1", position.saturating_sub(1))))
        }
        RemedyAction::RaiseScanLimit { scan } if *scan <= SCAN => {
            Some(get(format!("/v1/doctor?scan={scan}")))
        }
        RemedyAction::RaiseRunLimit { runs } if *runs <= RUNS => {
            Some(get(format!("/v1/doctor?runs={runs}")))
        }
        // More than one request may examine: the command can.
        RemedyAction::RaiseScanLimit { .. } | RemedyAction::RaiseRunLimit { .. } => None,
        // The archive is a file on the operator's machine, which the server cannot write.
        RemedyAction::Close { .. } => None,
        // The session belongs to the database, not to the store.
        RemedyAction::EndSession { .. } => None,
    }
}

fn of_run(verb: &str, run: &RunId, body: Value) -> RemedyRequestDto {
    post(format!("/v1/runs/{}/{verb}", encoded(run.as_str())), body)
}

fn of_work(verb: &str, work: &RemedyTask, mut body: Value) -> RemedyRequestDto {
    let (resource, named) = match work {
        RemedyTask::Target { reaction, target } => {
            ("reactions", vec![("reaction", reaction), ("target", target)])
        }
        RemedyTask::Item { queue, key } => ("leases", vec![("queue", queue), ("key", key)]),
        RemedyTask::Queue { queue } => ("leases", vec![("queue", queue)]),
    };
    for (name, value) in named {
        body[name] = json!(value);
    }
    if let RemedyTask::Queue { .. } = work {
        body["pattern"] = json!("*");
    }
    post(format!("/v1/{resource}/{verb}"), body)
}

fn post(path: String, body: Value) -> RemedyRequestDto {
    RemedyRequestDto { method: "POST", path, body: Some(body), add: &[] }
}

fn get(path: String) -> RemedyRequestDto {
    RemedyRequestDto { method: "GET", path, body: None, add: &[] }
}

/// Percent-encodes a path segment.
fn encoded(name: &str) -> String {
    let mut path = String::new();
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => path.push(char::from(byte)),
            false => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

#[cfg(test)]
mod tests {
    use tidelock::runs::StepName;
    use tidelock::store::StreamName;

    use super::*;

    #[test]
    fn remedies_become_requests() {
        let work = RemedyTask::Target { reaction: "mail".into(), target: "order-7".into() };
        let unblock = request(&RemedyAction::Unblock(work)).unwrap();
        assert_eq!(
            unblock,
            post(
                "/v1/reactions/unblock".into(),
                json!({ "reaction": "mail", "target": "order-7" })
            )
        );
        let all =
            request(&RemedyAction::Unblock(RemedyTask::Queue { queue: "~route/mail".into() }))
                .unwrap();
        assert_eq!(
            all,
            post("/v1/leases/unblock".into(), json!({ "queue": "~route/mail", "pattern": "*" }))
        );
        let release = request(&RemedyAction::Release { claim: "lock/till".into() }).unwrap();
        assert_eq!(
            release,
            post("/v1/abandoned-claims/release".into(), json!({ "claim": "lock/till" }))
        );
    }

    #[test]
    fn missing_fields_are_named() {
        let (run, step) = (RunId::new("a b").unwrap(), StepName::new("pay").unwrap());
        let resolve = request(&RemedyAction::Resolve { run, step }).unwrap();
        assert_eq!(resolve.path, "/v1/runs/a%20b/resolve");
        assert_eq!((resolve.body, resolve.add), (Some(json!({ "step": "pay" })), &["verdict"][..]));
    }

    #[test]
    fn remedies_outside_the_server_have_no_request() {
        assert_eq!(request(&RemedyAction::EndSession { session: 7 }), None);
        assert_eq!(
            request(&RemedyAction::Close { stream: StreamName::new("year").unwrap() }),
            None
        );
        assert!(request(&RemedyAction::RaiseScanLimit { scan: SCAN }).is_some());
        assert_eq!(request(&RemedyAction::RaiseScanLimit { scan: SCAN + 1 }), None);
        assert!(request(&RemedyAction::RaiseRunLimit { runs: RUNS }).is_some());
        assert_eq!(request(&RemedyAction::RaiseRunLimit { runs: RUNS + 1 }), None);
    }
}
