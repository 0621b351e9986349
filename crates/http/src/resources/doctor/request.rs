//! From something that the doctor advises to the request that does it.

use serde::Serialize;
use serde_json::{Value, json};
use tidelock::doctor::{Action, Work};
use utoipa::ToSchema;

/// A request to this server.
#[derive(Debug, PartialEq, Serialize, ToSchema)]
#[schema(as = CureRequest)]
pub(crate) struct Request {
    #[schema(example = "POST")]
    method: &'static str,
    /// Where, below where this server is mounted.
    #[schema(example = "/v1/reactions/unblock")]
    path: String,
    /// What to send.
    #[schema(value_type = Option<Object>)]
    body: Option<Value>,
}

/// The request that does this; nothing, if it cannot be done from here, or needs a decision first.
pub(super) fn request(action: &Action) -> Option<Request> {
    match action {
        Action::Unblock(work) => Some(of_work("unblock", work, json!({}))),
        Action::Defer { work, wait } => {
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            Some(of_work("defer", work, json!({ "in_ms": wait })))
        }
        Action::Resume { run } => Some(post(format!("/v1/runs/{}/resume", encoded(run.as_str())), json!({}))),
        Action::Cancel { run } => {
            let reason = json!({ "reason": "asked for by an operator" });
            Some(post(format!("/v1/runs/{}/cancel", encoded(run.as_str())), reason))
        }
        Action::Reroute { reaction, from_beginning } => {
            let from = if *from_beginning { "beginning" } else { "now" };
            Some(post("/v1/reactions/reroute".to_owned(), json!({ "reaction": reaction, "from": from })))
        }
        Action::LookAtEvent { position } => {
            Some(get(format!("/v1/events?after={}&limit=1", position.saturating_sub(1))))
        }
        Action::LookFurther { scan } => Some(get(format!("/v1/doctor?scan={scan}"))),
        _ => None,
    }
}

fn of_work(verb: &str, work: &Work, mut body: Value) -> Request {
    let (resource, named) = match work {
        Work::Target { reaction, target } => ("reactions", vec![("reaction", reaction), ("target", target)]),
        Work::Item { queue, key } => ("leases", vec![("queue", queue), ("key", key)]),
        Work::Queue { queue } => ("leases", vec![("queue", queue)]),
    };
    for (name, value) in named {
        body[name] = json!(value);
    }
    if let Work::Queue { .. } = work {
        body["pattern"] = json!("*");
    }
    post(format!("/v1/{resource}/{verb}"), body)
}

fn post(path: String, body: Value) -> Request {
    Request { method: "POST", path, body: Some(body) }
}

fn get(path: String) -> Request {
    Request { method: "GET", path, body: None }
}

/// As one segment of a path.
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
    use super::*;

    #[test]
    fn what_is_advised_can_be_sent() {
        let work = Work::Target { reaction: "mail".into(), target: "order-7".into() };
        let unblock = request(&Action::Unblock(work)).unwrap();
        let body = Some(json!({ "reaction": "mail", "target": "order-7" }));
        assert_eq!(unblock, Request { method: "POST", path: "/v1/reactions/unblock".into(), body });
        assert_eq!(request(&Action::EndSession { session: 7 }), None);
    }
}
