//! A small shop that sells tea.

mod answer;
mod baskets;
mod deliveries;
mod orders;
mod samples;
mod sold;
mod stock;

use std::env;
use std::error::Error;

use axum::Router;
use tidelock::prelude::*;
use tidelock_tower::IdempotencyLayer;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tidelock = Tidelock::open(&setting("SHOP_STORE", "sqlite:shop.db")).await?;
    let keys = IdempotencyLayer::new(&tidelock);
    let pages = Router::new()
        .merge(stock::routes())
        .merge(orders::routes(&keys))
        .merge(sold::routes())
        .merge(deliveries::routes())
        .merge(baskets::routes())
        .merge(samples::routes())
        .with_state(tidelock.clone());
    let (closing, closed) = oneshot::channel();
    tokio::try_join!(serve(pages, closing), work(&tidelock, closed))?;
    Ok(())
}

/// Answers customers, until somebody presses Ctrl-C.
async fn serve(pages: Router, closing: oneshot::Sender<()>) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(setting("SHOP_LISTEN", "127.0.0.1:3000")).await?;
    println!("the shop is open at http://{}", listener.local_addr()?);
    axum::serve(listener, pages).with_graceful_shutdown(told_to_stop()).await?;
    let _ = closing.send(());
    Ok(())
}

/// Does what has to be done about what has happened, until the shop has answered its last customer.
async fn work(tidelock: &Tidelock, closed: oneshot::Receiver<()>) -> Result<(), Box<dyn Error>> {
    let app = tidelock
        .app()
        .projection("sold", sold::source(), sold::count)
        .reaction("deliver", on::<orders::Placed>(), deliveries::begin)
        .workflow("delivery", deliveries::deliver)
        .build()?;
    app.run_until(async { drop(closed.await) }).await?;
    Ok(())
}

async fn told_to_stop() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn setting(name: &str, otherwise: &str) -> String {
    env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}
