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
use tidelock_http::Api;
use tidelock_tower::IdempotencyLayer;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tidelock = Tidelock::open(&setting("SHOP_STORE", "sqlite:shop.db")).await?;
    let closing = CancellationToken::new();
    tokio::spawn(close_when_told(closing.clone()));
    let keys = IdempotencyLayer::new(&tidelock);
    let inspector = Api::over(&tidelock).aggregate::<stock::Stock>().until(closing.clone());
    let pages = Router::new()
        .merge(stock::routes())
        .merge(orders::routes(&keys))
        .merge(sold::routes())
        .merge(deliveries::routes())
        .merge(baskets::routes())
        .merge(samples::routes())
        .with_state(tidelock.clone())
        .nest("/tidelock", inspector.router());
    tokio::try_join!(serve(pages, &closing), work(&tidelock, &closing))?;
    Ok(())
}

/// Serves customers until the shop closes.
async fn serve(pages: Router, closing: &CancellationToken) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind(setting("SHOP_LISTEN", "127.0.0.1:3000")).await?;
    println!("the shop is open at http://{}", listener.local_addr()?);
    axum::serve(listener, pages).with_graceful_shutdown(closing.clone().cancelled_owned()).await?;
    Ok(())
}

/// Runs reactions and workflows until the shop closes.
async fn work(tidelock: &Tidelock, closing: &CancellationToken) -> Result<(), Box<dyn Error>> {
    let app = tidelock
        .app()
        .projection("sold", sold::source(), sold::count)
        .reaction("deliver", on::<orders::Placed>(), deliveries::begin)
        .workflow(deliveries::DELIVERY, deliveries::deliver)
        .build()?;
    app.run_until(closing.cancelled()).await?;
    Ok(())
}

/// Ctrl-C closes the shop.
async fn close_when_told(closing: CancellationToken) {
    if tokio::signal::ctrl_c().await.is_ok() {
        closing.cancel();
    }
}

fn setting(name: &str, otherwise: &str) -> String {
    env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}
