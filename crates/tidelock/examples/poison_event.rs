//! A poison event: found, fixed, unblocked.
//!
//! Invoices follow orders. One order has an amount that the first version of the code cannot print,
//! so its target is blocked, with the error on record; every other order continues. The second
//! version can print it. Unblocked, the target continues at the event where it stopped, and no
//! invoice is written twice.
//!
//! ```sh
//! cargo run -p tidelock --example poison_event                  # in memory
//! cargo run -p tidelock --example poison_event -- sqlite:shop.db
//! ```

use std::error::Error;
use std::time::Duration;

use tidelock::prelude::*;
use tidelock::reactions::ReactionFilter;
use tidelock::store::{NewEvent, RecordKey, RecordQuery, StoreExt, StreamName};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Debug, Event)]
enum Order {
    Placed { cents: i64 },
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    for line in play(&Tidelock::open(&url).await?).await? {
        println!("{line}");
    }
    Ok(())
}

/// Runs the example, and returns what happened.
pub(crate) async fn play(tidelock: &Tidelock) -> Result<Vec<String>> {
    let mut told = Vec::new();
    for (order, cents) in [("1", 1_250), ("2", -300), ("3", 999)] {
        place(tidelock, order, cents).await?;
    }
    place(tidelock, "2", 500).await?;

    let blocked = ReactionFilter::named("invoice").blocked(true);
    run_until(tidelock, print_v1, async || {
        Ok(!tidelock.reactions().list(&blocked).all().await?.is_empty())
    })
    .await?;
    for target in tidelock.reactions().list(&blocked).all().await? {
        let error = target.error.unwrap_or_default();
        told.push(format!(
            "{} is blocked with {} events to go: {error}",
            target.target,
            target.mark.get() - target.at.get()
        ));
    }

    // The code is fixed and deployed; then an operator unblocks the target.
    let unblocked = tidelock.reactions().unblock(&blocked).await?;
    told.push(format!("unblocked {}", unblocked.changed));
    run_until(tidelock, print_v2, async || Ok(invoices(tidelock).await?.len() == 4)).await?;
    told.extend(invoices(tidelock).await?);
    Ok(told)
}

async fn place(tidelock: &Tidelock, order: &str, cents: i64) -> Result<()> {
    let (stream, placed) = (StreamName::new(format!("order-{order}"))?, Order::Placed { cents });
    let event =
        NewEvent::new(tidelock::store::EventType::new(placed.event_type())?, placed.encode()?);
    tidelock.store().append(&stream, ExpectedVersion::Any, vec![event]).await?.committed()?;
    Ok(())
}

/// The first version does not handle credit notes.
fn print_v1(cents: i64) -> std::result::Result<String, HandlerError> {
    let cents = u64::try_from(cents)
        .map_err(|_| HandlerError::fatal(format!("cannot print an amount of {cents} cents")))?;
    Ok(format!("{}.{:02}", cents / 100, cents % 100))
}

fn print_v2(cents: i64) -> std::result::Result<String, HandlerError> {
    let sign = if cents < 0 { "credit " } else { "" };
    Ok(format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100))
}

/// Runs the reaction with this version of the code until the condition holds.
async fn run_until(
    tidelock: &Tidelock,
    print: fn(i64) -> std::result::Result<String, HandlerError>,
    is_so: impl AsyncFn() -> Result<bool>,
) -> Result<()> {
    let app = tidelock.app().reaction(
        "invoice",
        on::<Order>(),
        move |order, ctx: ReactionCtx| async move {
            let Order::Placed { cents } = order.event;
            let invoice = print(cents)?;
            // Written in the commit of the ack: once, however often this runs.
            let key = RecordKey::new(format!("invoice/{}/{}", order.stream, order.version))?;
            Ok(ctx.put(&key, &invoice)?)
        },
    );
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(app.build()?.run_until(async {
        let _ended = stopped.await;
    }));
    while !is_so().await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let _ended = stop.send(());
    running.await??;
    Ok(())
}

async fn invoices(tidelock: &Tidelock) -> Result<Vec<String>> {
    let records = tidelock.store().rows(RecordQuery::prefix("invoice/")).all().await?;
    let line = |record: &tidelock::store::Record| {
        Ok(format!("{}: {}", record.key, record.value.to::<String>()?))
    };
    records.iter().map(line).collect()
}
