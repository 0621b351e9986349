//! Scene: two processes sell the same stock through an aggregate, and nothing is sold twice (EVT-2,
//! EVT-3).

use std::sync::Arc;

use tidelock::prelude::*;
use tokio::sync::Barrier;

use super::stage::{Stage, joined};
use crate::failure::{Failure, Result};

const UNITS: i64 = 5;
const BUYERS: usize = 12;

#[derive(Default, Clone)]
struct Stock {
    left: i64,
}

#[derive(Event)]
enum StockEvent {
    Received { units: i64 },
    Reserved { buyer: usize },
}

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Reserved { .. } => self.left -= 1,
        }
    }
}

impl Stock {
    fn reserve(&self, buyer: usize) -> Result<StockEvent, String> {
        if self.left == 0 {
            return Err("nothing is left".into());
        }
        Ok(StockEvent::Reserved { buyer })
    }
}

/// What a buyer was told.
type Told = Result<(), ExecuteError<String>>;

pub(super) async fn play(stage: &mut Stage<'_>) -> Result<()> {
    stage.scene("An order that cannot be oversold")?;
    let id = stage.name("sku-7");
    let shops = [Tidelock::over(stage.store.clone()), Tidelock::over(stage.other.clone())];
    let stock = shops[0].aggregate::<Stock>(&id);
    let received = stock.execute(|_| Ok::<_, String>(StockEvent::Received { units: UNITS })).await;
    received.map_err(|e| unexpected(&e))?;
    stage.say(&format!(
        "{UNITS} teapots are in stock; {BUYERS} buyers in two shops reserve one each, all at once"
    ))?;

    let told = reserve_all(&shops, &id).await?;
    let sold = told.iter().filter(|told| told.is_ok()).count();
    stage.say(&format!(
        "sold: {sold}; each shop decides on its cached state, and decides again if the other was faster"
    ))?;
    if let Some(Err(refused)) = told.iter().find(|told| told.is_err()) {
        stage.say(&format!("refused: {}, {refused}", BUYERS - sold))?;
    }
    let left = shops[1].aggregate::<Stock>(&id).load().await.map_err(|e| unexpected(&e))?.left;
    let holds = left == 0 && i64::try_from(sold) == Ok(UNITS);
    stage.prove(
        &format!("{UNITS} were sold, and 0 are left"),
        holds,
        &format!("{sold} sold, {left} left"),
    )
}

async fn reserve_all(shops: &[Tidelock; 2], id: &str) -> Result<Vec<Told>> {
    let start = Arc::new(Barrier::new(BUYERS));
    let buyers: Vec<_> = (0..BUYERS)
        .map(|buyer| {
            let (stock, start) = (shops[buyer % 2].aggregate::<Stock>(id), start.clone());
            tokio::spawn(async move {
                start.wait().await;
                stock.execute(|stock| stock.reserve(buyer)).await.map(drop)
            })
        })
        .collect();
    let mut told = Vec::new();
    for buyer in buyers {
        told.push(joined(buyer).await?);
    }
    Ok(told)
}

fn unexpected(error: &dyn std::error::Error) -> Failure {
    Failure::Broken(format!("this decision has no conflict, and yet failed: {error}"))
}
