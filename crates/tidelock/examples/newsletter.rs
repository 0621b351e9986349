//! A newsletter: typed jobs, enqueued with the order that they belong to, one of each under a key.
//!
//! The mail server does not know one of the addresses, so that mail becomes a dead letter, which an
//! operator discards with a reason. It is busy once, so another mail is sent at the second attempt.
//! Every other mail is sent once, although it was enqueued twice.
//!
//! ```sh
//! cargo run -p tidelock --example newsletter                  # in memory
//! cargo run -p tidelock --example newsletter -- sqlite:shop.db
//! ```

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::jobs::{JobFilter, JobOptions, JobState};
use tidelock::prelude::*;

#[derive(Serialize, Deserialize)]
struct SendMail {
    to: String,
}

impl Job for SendMail {
    const QUEUE: &'static str = "mail";

    fn options() -> JobOptions {
        let day = Duration::from_secs(24 * 3_600);
        let retry = Retry::attempts(3).backoff(Backoff::fixed(Duration::from_millis(10)));
        JobOptions::new().retry(retry).keep_results(day)
    }
}

async fn send_mail(mail: SendMail, ctx: JobCtx) -> Result<String, HandlerError> {
    match (mail.to.as_str(), ctx.attempt()) {
        ("eve@example.com", _) => Err(HandlerError::fatal("no such mailbox")),
        ("bob@example.com", 1) => Err(HandlerError::again("the server is busy")),
        (to, attempt) => {
            ctx.add("mails/sent", 1, ..)?; // lands with the end of the job
            Ok(format!("sent to {to} at attempt {attempt}"))
        }
    }
}

#[tokio::main]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1).filter(|url| url.contains(':'));
    let tidelock = Tidelock::open(&url.unwrap_or_else(|| "memory:".to_owned())).await?;
    for to in ["ada@example.com", "bob@example.com", "eve@example.com", "ada@example.com"] {
        tidelock
            .transact(async |tx: Tx| -> tidelock::Result<()> {
                tx.add("newsletters", 1, ..)?;
                tx.enqueue(&SendMail { to: to.to_owned() }).key(to).await?;
                Ok(())
            })
            .await?;
    }

    let (jobs, mails) = (tidelock.jobs(), JobFilter::queue("mail"));
    let dead = mails.clone().state(JobState::Blocked);
    let settled = async {
        while jobs.list(&mails).all().await?.len() > jobs.list(&dead).all().await?.len() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok::<_, tidelock::Error>(())
    };
    let app = tidelock.app().job(send_mail).build()?;
    app.run_until(async { drop(settled.await) }).await?;

    for job in jobs.list(&dead).all().await? {
        println!("{}: {}", job.key, job.error.unwrap_or_default());
    }
    let discarded = jobs.discard(&dead, "the account is closed").await?;
    let sent: Option<String> = jobs.result("mail", "bob@example.com").await?;
    println!("{discarded} discarded, and {}", sent.clone().unwrap_or_default());

    assert_eq!(sent.as_deref(), Some("sent to bob@example.com at attempt 2"));
    assert_eq!(discarded, 1);
    let done = jobs.list(&mails.state(JobState::Done)).all().await?;
    assert_eq!(done.len(), 2, "ada's was enqueued twice, and sent once");
    Ok(())
}
