//! Every bound of the API, and its default.

use std::time::Duration;

/// Limits on what clients can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes in the body of a request.
    pub body_bytes: usize,
    /// Entries per page by default.
    pub page: usize,
    /// Event streams open at once, over all clients.
    pub streams: usize,
    /// Connections open at once. When all are in use, a new one replaces the one that has been idle
    /// longest; if none is idle, the new client is told to retry later. Only for
    /// [`serve`](crate::serve()).
    pub connections: usize,
    /// How long a request can wait for something to happen.
    pub wait: Duration,
    /// How long a client can take to send the head of a request, counted from when its connection
    /// opened or the previous request was answered. Only for [`serve`](crate::serve()).
    pub head: Duration,
    /// How long a client can take to send the body of a request. Only for
    /// [`serve`](crate::serve()).
    pub body: Duration,
    /// How long a client can go without reading from a response. Only for
    /// [`serve`](crate::serve()).
    pub taken: Duration,
    /// How long requests in flight can take once the server shuts down. Only for
    /// [`serve`](crate::serve()).
    pub grace: Duration,
    /// How often a comment is sent over an idle event stream.
    pub keep_alive: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 1 << 20,
            page: 100,
            streams: 256,
            connections: 4096,
            wait: Duration::from_secs(60),
            head: Duration::from_secs(30),
            body: Duration::from_secs(60),
            taken: Duration::from_secs(60),
            grace: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
        }
    }
}

/// The maximum number of entries per page.
pub(crate) const PAGE: usize = tidelock::store::limits::PAGE_SIZE;
/// Minimum characters of a token: shorter ones can be guessed.
pub(crate) const TOKEN_LEAST: usize = 16;
/// Maximum characters of a token.
pub(crate) const TOKEN_MOST: usize = 1024;
/// Tokens per server: each is compared with the token of a request.
pub(crate) const TOKENS: usize = 1000;
/// Characters in the name of a token.
pub(crate) const TOKEN_NAME: usize = 64;
/// How long the response to a request with an idempotency key is kept.
pub(crate) const IDEMPOTENCY: Duration = Duration::from_secs(24 * 3600);
/// How long a follower waits for a change hint before it polls: hints can get lost.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Events that a follower reads at once, and so the most that is buffered for a slow reader.
pub(crate) const FOLLOW_PAGE: usize = 100;
/// The interval of live samples.
pub(crate) const BEAT: Duration = Duration::from_secs(2);
/// Bytes of an operator's request that are recorded; of a larger one, only the path.
pub(crate) const AUDITED: usize = 64 << 10;
/// Connections beyond the limit: for health checks, and for answering that the server is full.
pub(crate) const RESERVE: usize = 64;
/// How long to wait for the machine to have room for another connection: if one closes, and if none
/// does.
pub(crate) const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long a client can take for its part of the TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
