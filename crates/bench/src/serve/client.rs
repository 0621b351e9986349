//! A client that appends to its own stream over one connection; and stalled followers.
//!
//! The requests are prepared once and sent unchanged, as load generators do: the server is
//! measured.

use std::net::SocketAddr;
use std::time::Duration;

use tidelock::store::async_trait;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::failure::Failure;
use crate::measure::{Caller, Callers, Side, Slice};

/// The time until the buffers of a stalled follower are full, with a margin.
const FILLED: Duration = Duration::from_millis(500);

pub(super) const TOKEN: &str = "bench-token-0123456789";

/// The body of a request; the size of a small order.
pub(super) const ORDER: &str = r#"{"order":"order-7","lines":[{"sku":"sku-1","units":2},{"sku":"sku-9","units":1}],"note":"leave it with the neighbours, please"}"#;

pub(super) struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Client {
    pub(super) async fn connect(server: SocketAddr, nth: usize) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let body = format!(r#"{{"events":[{{"type":"placed","data":{ORDER}}}]}}"#);
        let request = format!(
            "POST /v1/streams/there-{nth}/events HTTP/1.1\r\nhost: {server}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(Self { stream, request: request.into_bytes(), answer: Vec::with_capacity(1024) })
    }

    /// Whether the whole answer is there.
    fn is_whole(&self) -> Result<bool, Failure> {
        let Some(end) = self.answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(false);
        };
        let head = String::from_utf8_lossy(&self.answer[..end]).to_ascii_lowercase();
        if !head.starts_with("http/1.1 201") {
            return Err(Failure::Answer(String::from_utf8_lossy(&self.answer).into_owned()));
        }
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let length =
            length.ok_or_else(|| Failure::Answer("an answer without a length".to_owned()))?;
        Ok(self.answer.len() >= end + 4 + length)
    }
}

impl Caller for Client {
    async fn call(&mut self) -> Result<u64, Failure> {
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        while !self.is_whole()? {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(Failure::Answer("the server has hung up".to_owned()));
            }
        }
        Ok(1)
    }
}

/// Clients at work while stalled followers are connected to the feed.
pub(super) struct StalledFollowers {
    clients: Callers<Client>,
    server: SocketAddr,
    followers: usize,
}

impl StalledFollowers {
    pub(super) fn around(clients: Callers<Client>, server: SocketAddr, followers: usize) -> Self {
        Self { clients, server, followers }
    }

    async fn follow(&self) -> Result<TcpStream, Failure> {
        let mut stream = TcpStream::connect(self.server).await?;
        let request = format!(
            "GET /v1/events/follow HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\r\n",
            self.server
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }
}

#[async_trait]
impl Side for StalledFollowers {
    async fn run_slice(&mut self, slice: Duration) -> Result<Slice, Failure> {
        let mut followers = Vec::new();
        for _ in 0..self.followers {
            followers.push(self.follow().await?);
        }
        // The buffers between the server and a follower are filled first; measured is the cost of a
        // follower that then reads nothing.
        tokio::time::sleep(FILLED).await;
        self.clients.run_slice(slice).await
    }
}
