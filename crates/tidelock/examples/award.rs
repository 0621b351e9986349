//! A child is awarded points for a prayer: once per request, once a day, never more than a day's
//! points, and under a lock. All of that is one commit, and so is its completion.
//!
//! Run it with `cargo run -p tidelock --example award`. Ten clients send one request concurrently,
//! and two more try what they must not.

use std::error::Error;
use std::time::Duration;

use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidelock::claims::{Period, RefusalReason};
use tidelock::prelude::*;
use tidelock::store::{Commit, NewEvent, StoreExt, StreamName};

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Award {
    request: String,
    child: String,
    item: String,
    points: u32,
}

/// A client's response.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Answer {
    Awarded(String),
    Already(String),
    Refused(String),
}

async fn award(tidelock: &Tidelock, award: &Award) -> Result<Answer, Box<dyn Error>> {
    let claims = tidelock.claims();
    let all = claims
        .claim_all()
        .idempotency(&claims.idempotency(&award.request).fingerprint(award))
        .singleton(&claims.singleton("logged").of(&award.child).of(&award.item).per(Period::Day))
        .quota(&claims.quota("points", 50).of(&award.child).per(Period::Day), award.points)
        .lock(&claims.lock("child").of(&award.child))
        .within(Duration::from_secs(2));
    let mut won = match all.claim().await? {
        Outcome::Granted(won) => won,
        Outcome::Refused(refusals) => {
            return match refusals
                .into_iter()
                .next()
                .map(|refusal| (refusal.to_string(), refusal.why))
            {
                Some((_, RefusalReason::Done { result, .. })) => Ok(Answer::Already(result.to()?)),
                // The key's holder sends the same request; its result is as good as our own.
                Some((_, RefusalReason::Held { .. })) => wait(tidelock, award).await,
                Some((why, _)) => Ok(Answer::Refused(why)),
                None => Err("refused for no reason".into()),
            };
        }
    };
    let receipt = format!("{} points for {}", award.points, award.child);
    let stream = StreamName::new(format!("child-{}", award.child))?;
    let event = NewEvent::of("awarded", &json!({ "item": award.item, "points": award.points }))?;
    won.complete_with(&receipt, Commit::new().append(&stream, ExpectedVersion::Any, [event]))
        .await?;
    Ok(Answer::Awarded(receipt))
}

async fn wait(tidelock: &Tidelock, award: &Award) -> Result<Answer, Box<dyn Error>> {
    match tidelock.claims().idempotency(&award.request).fingerprint(award).claim().await? {
        IdempotencyClaim::Held(holder) => {
            Ok(Answer::Already(holder.wait(Duration::from_secs(30)).await?))
        }
        IdempotencyClaim::Done(receipt) => Ok(Answer::Already(receipt)),
        other => Err(format!("{other:?}").into()),
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let tidelock = Tidelock::open("memory:").await?;
    let asked = |request: &str, item: &str, points| Award {
        request: request.into(),
        child: "7".into(),
        item: item.into(),
        points,
    };
    let first = asked("request-1", "morning", 30);
    let answers = join_all((0..10).map(|_| award(&tidelock, &first))).await;
    let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    let awarded = answers.iter().filter(|answer| matches!(answer, Answer::Awarded(_))).count();
    println!("ten clients, one request: {awarded} award, and every client gets {:?}", answers[0]);
    assert_eq!(awarded, 1);

    for (request, item, points) in [("request-2", "morning", 5), ("request-3", "evening", 30)] {
        let answer = award(&tidelock, &asked(request, item, points)).await?;
        println!("{request}: {answer:?}");
        assert!(!matches!(answer, Answer::Awarded(_)));
    }
    let events = tidelock.store().read_whole_stream(&StreamName::new("child-7")?).await?;
    assert_eq!(events.len(), 1);
    Ok(())
}
