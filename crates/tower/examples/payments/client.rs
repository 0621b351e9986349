//! A persistent client: it sends a payment under the same key until it has a receipt.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Result;
use super::ledger::Ledger;
use super::server::Payment;
use super::team::Team;

/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a patient client waits for a response.
const PATIENT: Duration = Duration::from_secs(30);

pub(crate) struct Client {
    nth: usize,
    team: Arc<Team>,
    ledger: Arc<Ledger>,
}

impl Client {
    pub(crate) fn new(nth: usize, team: &Arc<Team>, ledger: &Arc<Ledger>) -> Self {
        Self { nth, team: team.clone(), ledger: ledger.clone() }
    }

    /// Makes one payment after the other, each under its own key, until the ledger is closed.
    pub(crate) async fn pay_until_told(self) -> Result<()> {
        let mut payments = 0;
        while !self.ledger.is_closed() {
            payments += 1;
            let (key, amount) =
                (format!("client-{}-payment-{payments}", self.nth), fastrand::u64(1..1000));
            let receipt = self.pay(&key, amount).await?;
            self.ledger.note_paid(key, amount, receipt);
        }
        Ok(())
    }

    async fn pay(&self, key: &str, amount: u64) -> Result<String> {
        loop {
            // Some disconnect before they can have a response, and try again.
            let patience = match fastrand::u8(..4) {
                0 => Duration::from_millis(fastrand::u64(1..15)),
                _ => PATIENT,
            };
            let asked = ask(self.team.any(), key, amount);
            match tokio::time::timeout(patience, asked).await {
                Ok(Ok((StatusCode::CREATED, receipt))) => return Ok(receipt),
                Ok(Ok((StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE, _))) => {
                    self.ledger.note_retry();
                }
                Ok(Ok((status, body))) => {
                    return Err(format!("key {key:?}: {status}: {body}").into());
                }
                Ok(Err(_)) => self.ledger.note_broken_off(),
                Err(_) => self.ledger.note_hung_up(),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

/// Sends a payment over a new connection.
async fn ask(server: SocketAddr, key: &str, amount: u64) -> Result<(StatusCode, String)> {
    let stream = TcpStream::connect(server).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::post("/payments")
        .header("host", "payments")
        .header("content-type", "application/json")
        .header("idempotency-key", format!("\"{key}\""))
        .body(Full::new(Bytes::from(serde_json::to_vec(&Payment { amount })?)))?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        let (status, body) = (response.status(), response.into_body().collect().await?.to_bytes());
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    };
    // The connection ends with the request.
    let (answer, _) = tokio::join!(answer, connection);
    answer
}
