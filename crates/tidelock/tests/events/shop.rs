//! The aggregates of the tests.

use std::convert::Infallible;

use tidelock::prelude::*;

/// Units of one product.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Stock {
    pub(crate) left: i64,
    pub(crate) orders: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Event)]
pub(crate) enum StockEvent {
    Received { units: i64 },
    Reserved { units: i64, order: String },
}

/// Why a decision was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum No {
    OnlySoMany(i64),
    ThereIsOne,
}

impl std::fmt::Display for No {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for No {}

impl Aggregate for Stock {
    const KIND: &'static str = "stock";
    type Event = StockEvent;

    fn apply(&mut self, event: &StockEvent) {
        match event {
            StockEvent::Received { units } => self.left += units,
            StockEvent::Reserved { units, order } => {
                self.left -= units;
                self.orders.push(order.clone());
            }
        }
    }
}

impl Stock {
    pub(crate) fn reserve(&self, units: i64, order: &str) -> Result<StockEvent, No> {
        if units > self.left {
            return Err(No::OnlySoMany(self.left));
        }
        Ok(StockEvent::Reserved { units, order: order.to_owned() })
    }

    /// Only once.
    pub(crate) fn open(&self, units: i64) -> Result<StockEvent, No> {
        if *self != Self::default() {
            return Err(No::ThereIsOne);
        }
        Ok(StockEvent::Received { units })
    }
}

/// A decision that is never refused.
pub(crate) fn receive(units: i64) -> impl Fn(&Stock) -> Result<StockEvent, Infallible> {
    move |_| Ok(StockEvent::Received { units })
}

/// A counter of steps.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Counter {
    pub(crate) steps: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Event)]
pub(crate) struct Stepped {}

impl Aggregate for Counter {
    const KIND: &'static str = "counter";
    type Event = Stepped;

    fn apply(&mut self, _: &Stepped) {
        self.steps += 1;
    }
}

pub(crate) fn step(_: &Counter) -> Result<Stepped, Infallible> {
    Ok(Stepped {})
}
