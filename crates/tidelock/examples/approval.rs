//! A payment that waits for a person.
//!
//! Large payments need an approval within two days. The answer is a signal: it is kept if it
//! arrives before the run waits for it, it counts once however often the button is pressed, and
//! after the end of the run it is refused.
//!
//! ```sh
//! cargo run -p tidelock --example approval                      # in memory
//! cargo run -p tidelock --example approval -- sqlite:shop.db
//! ```

use std::error::Error;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelock::prelude::*;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const PAY: Workflow<Payment, String> = Workflow::new("pay");

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Payment {
    to: String,
    cents: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Answer {
    by: String,
    yes: bool,
}

async fn pay(ctx: RunCtx, payment: Payment) -> Result<String> {
    if payment.cents > 100_000 {
        let two_days = Duration::from_secs(2 * 24 * 3_600);
        let answer: Option<Answer> = ctx.wait_for_signal("approval").within(two_days).await?;
        match answer {
            Some(Answer { yes: true, by }) => println!("{by} approves"),
            Some(Answer { by, .. }) => return Ok(format!("{by} said no")),
            None => return Ok("no answer in time".into()),
        }
    }
    Ok(ctx.step("transfer", |key| transfer(&payment, key)).await?)
}

/// The bank gets the idempotency key, and carries out each key once.
async fn transfer(payment: &Payment, key: StepKey) -> Result<String, HandlerError> {
    Ok(format!("{} cents to {}, as {key}", payment.cents, payment.to))
}

#[tokio::main]
pub(crate) async fn main() -> Result<()> {
    let url = std::env::args()
        .nth(1)
        .filter(|url| url.contains(':'))
        .unwrap_or_else(|| "memory:".to_owned());
    let tidelock = Tidelock::open(&url).await?;
    let app = tidelock.app().workflow(PAY, pay).build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(app.run_until(async { drop(stopped.await) }));

    let large = Payment { to: "the shipyard".into(), cents: 900_000 };
    let run = tidelock.start(PAY, "payment-1", &large).await?;
    let answer = Answer { by: "Ada".into(), yes: true };
    // The button was pressed twice.
    run.signal("approval", &answer).id("form-17").await?;
    run.signal("approval", &answer).id("form-17").await?;
    let paid = run.result().await?;
    println!("{paid}");
    assert_eq!(paid, "900000 cents to the shipyard, as payment-1:transfer");

    let late = run.signal("approval", &answer).id("form-18").await.expect_err("it has ended");
    println!("{late}");
    assert!(late.to_string().contains("payment-1"), "{late}");

    let _ended = stop.send(());
    running.await??;
    Ok(())
}
