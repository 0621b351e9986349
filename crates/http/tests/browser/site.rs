//! A served store, and a browser that opens it.

use std::any::Any;
use std::future::Future;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;

use axum::Router;
use futures_util::FutureExt;
use tidelock::Tidelock;
use tidelock::doctor::Doctor;
use tidelock_http::{Api, Tokens};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::page::Page;
use crate::shop::Stock;

/// The tokens of the tests' servers.
pub(crate) const OPERATOR: &str = "the-operators-own-token-0001";
pub(crate) const READER: &str = "the-readers-own-token-000002";

/// The result of a case; a panic if it failed.
type Looked = Result<(), Box<dyn Any + Send>>;

/// Serves this store, and opens it in a browser, which is closed whatever the result.
pub(crate) async fn visit(tidelock: &Tidelock, case: impl AsyncFnOnce(&Page)) {
    visit_with(tidelock, Doctor::over(tidelock.store().clone()), case).await;
}

/// Serves this store with a doctor of the case's own.
pub(crate) async fn visit_with(tidelock: &Tidelock, doctor: Doctor, case: impl AsyncFnOnce(&Page)) {
    let tokens = format!("operator alice {OPERATOR}\nreader grafana {READER}");
    let api = Api::over(tidelock)
        .tokens(Tokens::read(&tokens).unwrap())
        .aggregate::<Stock>()
        .doctor(doctor);
    let (listener, address) = listener().await;
    let stop = CancellationToken::new();
    let served =
        tokio::spawn(tidelock_http::serve(listener, api, None, stop.clone().cancelled_owned()));
    let looked = look(format!("http://{address}/"), case).await;
    stop.cancel();
    served.await.unwrap().unwrap();
    told(looked);
}

/// Mounts the inspector in an application, without tokens: read-only.
pub(crate) async fn visit_mounted(tidelock: &Tidelock, case: impl AsyncFnOnce(&Page)) {
    let app =
        Router::new().nest("/ops/tidelock", Api::over(tidelock).aggregate::<Stock>().router());
    let (listener, address) = listener().await;
    let served = tokio::spawn(async move { axum::serve(listener, app).await });
    let looked = look(format!("http://{address}/ops/tidelock"), case).await;
    served.abort();
    told(looked);
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn look(address: String, case: impl AsyncFnOnce(&Page)) -> Looked {
    let driver = Driver::start();
    let page = Page::new(driver.browser().await, address);
    let looked = AssertUnwindSafe(case(&page)).catch_unwind().await;
    page.close().await;
    looked
}

fn told(looked: Looked) {
    if let Err(panic) = looked {
        std::panic::resume_unwind(panic);
    }
}

/// Runs a case in real time.
pub(crate) fn for_real<T>(case: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(case)
}

impl Page {
    /// Opens the inspector with this token.
    pub(crate) async fn open_as(&self, token: &str) {
        self.open().await;
        self.write("dialog input[name=token]", token).await;
        self.click("//dialog//button[.='Sign in']").await;
        self.sees_no("dialog", "Sign in").await;
    }
}
