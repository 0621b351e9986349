//! An order that cannot be oversold.
//!
//! Twenty customers want tickets concurrently, half of them through another handle to the store,
//! like another process. There are too few tickets. Every order and its tickets land in one commit;
//! each order is granted once or refused with a reason, and the number of tickets never goes below
//! zero. Customers whose response was lost retry under the same operation id, and get the same
//! response.
//!
//! ```sh
//! cargo run -p tidelock --example oversold                       # in memory
//! cargo run -p tidelock --example oversold -- sqlite:tickets.db
//! ```

use std::error::Error;
use std::fmt;

use tidelock::Provenance;
use tidelock::prelude::*;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

const TICKETS: u32 = 30;
const CUSTOMERS: u32 = 20;

/// The tickets of one show.
#[derive(Debug, Default, Clone)]
pub(crate) struct Show {
    pub(crate) left: u32,
}

#[derive(Debug, Event)]
#[event(prefix = "show")]
pub(crate) enum ShowEvent {
    Announced { tickets: u32 },
    Sold { tickets: u32, order: String },
}

impl Aggregate for Show {
    const KIND: &'static str = "show";
    type Event = ShowEvent;

    fn apply(&mut self, event: &ShowEvent) {
        match event {
            ShowEvent::Announced { tickets } => self.left = *tickets,
            ShowEvent::Sold { tickets, .. } => self.left -= tickets,
        }
    }
}

/// One customer's order.
#[derive(Debug, Default, Clone)]
pub(crate) struct Order {
    pub(crate) tickets: u32,
}

#[derive(Debug, Event)]
#[event(prefix = "order")]
pub(crate) enum OrderEvent {
    Placed { tickets: u32 },
}

impl Aggregate for Order {
    const KIND: &'static str = "order";
    type Event = OrderEvent;

    fn apply(&mut self, event: &OrderEvent) {
        let OrderEvent::Placed { tickets } = event;
        self.tickets += tickets;
    }
}

/// Why an order is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    SoldOut { left: u32 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::SoldOut { left } = self;
        write!(f, "only {left} tickets left")
    }
}

impl Error for Refusal {}

/// The decision, without any regard to other customers.
fn buy(show: &Show, order: &str, tickets: u32) -> Result<(ShowEvent, OrderEvent), Refusal> {
    if tickets > show.left {
        return Err(Refusal::SoldOut { left: show.left });
    }
    Ok((ShowEvent::Sold { tickets, order: order.to_owned() }, OrderEvent::Placed { tickets }))
}

/// Places an order, and retries it as if the response had been lost. Returns the customer's number
/// of tickets.
async fn place(tidelock: &Tidelock, customer: u32) -> Result<u32> {
    let (id, tickets) = (format!("customer-{customer}"), customer % 3 + 1);
    let (show, order) = (tidelock.aggregate::<Show>("macbeth"), tidelock.aggregate::<Order>(&id));
    let ask = || {
        let both = tidelock.decide((&show, &order)).operation_id(&id).by(&id);
        both.execute(|(show, _): (&Show, &Order)| buy(show, &id, tickets))
    };
    match ask().await {
        Ok(_) => {
            let again = ask().await?;
            assert_eq!(again[0].how, Provenance::Replayed, "nothing is bought twice");
            Ok(tickets)
        }
        Err(ExecuteError::Refused(Refusal::SoldOut { .. })) => Ok(0),
        Err(other) => Err(other.into()),
    }
}

/// Serves all customers; returns how many tickets were announced, sold and left.
pub(crate) async fn sell(one: &Tidelock, other: &Tidelock) -> Result<(u32, u32, u32)> {
    let announce = |_: &Show| Ok::<_, Refusal>(ShowEvent::Announced { tickets: TICKETS });
    one.aggregate::<Show>("macbeth").new_only().execute(announce).await?;
    let mut customers = tokio::task::JoinSet::new();
    for customer in 0..CUSTOMERS {
        let tidelock = if customer % 2 == 0 { one } else { other }.clone();
        customers.spawn(async move { place(&tidelock, customer).await });
    }
    let mut sold = 0;
    while let Some(bought) = customers.join_next().await {
        sold += bought??;
    }
    Ok((TICKETS, sold, one.aggregate::<Show>("macbeth").load().await?.left))
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    // A memory store belongs to one process; any other is opened twice, as by two processes.
    let one = Tidelock::open(&url).await?.with_retry(Retry::attempts(100));
    let other = if url == "memory:" {
        one.clone()
    } else {
        Tidelock::open(&url).await?.with_retry(Retry::attempts(100))
    };
    let (announced, sold, left) = sell(&one, &other).await?;
    println!("{announced} tickets, {sold} sold to {CUSTOMERS} customers who asked, {left} left");
    Ok(())
}
