//! Every bound of the API, and what it is unless something else is asked for.

use std::time::Duration;

/// How much one client may ask for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes in the body of a request.
    pub body_bytes: usize,
    /// Entries in a page of which nothing was said.
    pub page: usize,
    /// Event streams that are open at once, over all clients.
    pub streams: usize,
    /// Connections that are open at once. For another one, the one that has waited for its client
    /// longest is closed; if none waits for its client, whoever comes is told to come back. Only of
    /// a server of our own.
    pub connections: usize,
    /// How long a request may wait for something to happen.
    pub wait: Duration,
    /// How long a client may take to send the head of a request, from when its connection is open
    /// or the request before was answered. Only of a server of our own.
    pub head: Duration,
    /// How long a client may take to send the body of a request. Only of a server of our own.
    pub body: Duration,
    /// How long a client may take nothing of an answer. Only of a server of our own.
    pub taken: Duration,
    /// How long requests that have begun may take once the server is to end. Only of a server of
    /// our own.
    pub grace: Duration,
    /// How often a comment is sent over an event stream on which nothing happens.
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

/// Entries in a page, whatever is asked for.
pub(crate) const PAGE: usize = tidelock::limits::PAGE_SIZE;
/// Characters in a token: fewer can be guessed.
pub(crate) const TOKEN_LEAST: usize = 16;
/// Characters in a token: more is a mistake.
pub(crate) const TOKEN_MOST: usize = 1024;
/// Tokens of one server: each of them is compared with what a request brings.
pub(crate) const TOKENS: usize = 1000;
/// Characters in the name of a token.
pub(crate) const TOKEN_NAME: usize = 64;
/// How long the response to a request with a key is kept.
pub(crate) const IDEMPOTENCY: Duration = Duration::from_secs(24 * 3600);
/// When a client that came at a bad moment is to come back.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long a follower waits for a signal before it looks for itself: signals are hints.
pub(crate) const LOOK: Duration = Duration::from_secs(1);
/// Events that a follower reads in one go, and so the most that is kept for one who is slow.
pub(crate) const FOLLOW_PAGE: usize = 100;
/// How often a sample is sent to those who look.
pub(crate) const BEAT: Duration = Duration::from_secs(2);
/// Bytes of what an operator sends that are written down; of more, only what it is done to.
pub(crate) const AUDITED: usize = 64 << 10;
/// Connections beyond those that may be open at once: for health checks, and for being told that
/// there is no room.
pub(crate) const RESERVE: usize = 64;
/// How long to wait for the machine to have room for another connection: if one makes room, and if
/// none does.
pub(crate) const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// How long a client may take for its part of the beginning of a TLS connection.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
