//! The inspector on the demo's store, until it is interrupted.

use std::net::SocketAddr;

use tidelock::Tidelock;
use tidelock::doctor::Doctor;
use tidelock_http::{Api, Commits, Tokens};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::shop::{self, Stock};
use super::stage::Stage;
use crate::commands::interrupt::interrupted;
use crate::failure::{Failure, Result};

/// Serves it, with a running shop.
pub(super) async fn serve(stage: &mut Stage<'_>, listen: SocketAddr) -> Result<()> {
    let (store, commits) = Commits::counted(stage.store.clone());
    let doctor = Doctor::over(store.clone()).at(stage.url());
    let tidelock = Tidelock::over(store);
    let (listener, token) = (listener(listen).await?, token());
    let tokens = Tokens::read(&format!("operator you {token}"));
    let tokens =
        tokens.map_err(|e| Failure::Broken(format!("the demo's own token is refused: {e}")))?;
    let api =
        Api::over(&tidelock).tokens(tokens).commits(commits).doctor(doctor).aggregate::<Stock>();
    let end = interrupted();
    stage.announce("")?;
    stage.announce(&format!("The inspector is at http://{}/", listener.local_addr()?))?;
    stage.announce(&format!("Sign in with the token {token}; an interrupt (Ctrl-C) ends it"))?;
    stage.announce("Now and then an order comes without an address: the doctor finds it blocked, and has a button for it")?;

    let (stop, stopped) = watch::channel(());
    let going_on = tokio::spawn(shop::go_on(tidelock, stage.name(""), stopped));
    let served = tidelock_http::serve(listener, api, None, end).await;
    drop(stop);
    super::stage::joined(going_on).await??;
    served.map_err(|e| {
        Failure::refused(format!("the inspector cannot be served: {e}"), "another --listen ADDRESS")
    })
}

/// Binds this address, or another port of it if that is taken.
async fn listener(listen: SocketAddr) -> Result<TcpListener> {
    match TcpListener::bind(listen).await {
        Ok(listener) => Ok(listener),
        Err(_) => Ok(TcpListener::bind((listen.ip(), 0)).await?),
    }
}

/// Random, and valid for this process only.
fn token() -> String {
    let part = || uuid::Uuid::now_v7().simple().to_string();
    part() + &part()
}
