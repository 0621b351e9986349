//! The claim that a handler runs under, for handlers that want to know of it.
//!
//! It is among the extensions of a request whose key was won. A handler that leaves it alone has
//! its response kept after it is done; if its process dies in between, a retry runs it again. One
//! whose effects are in the same store has the response kept *with* them, in one commit, and is
//! never run again once it had one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::{BodyExt, Full};
use tidelock::claims::{ClaimError, ClaimGuard, Fingerprint};
use tidelock::{Commit, Fence, Guard, RecordWrite};

use crate::edge::Config;
use crate::recorded::Recorded;

/// The claim that a handler runs under.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    key: Arc<str>,
    fingerprint: Fingerprint,
    fence: Fence,
    guard: Guard,
    // Not more than this, so that the claim ends with the handler whatever became of this.
    right: Weak<HeldKey>,
}

/// The right to answer, and whether that was done.
#[derive(Debug)]
pub(crate) struct HeldKey {
    pub(crate) won: ClaimGuard<Recorded>,
    fingerprint: Fingerprint,
    pub(crate) edge: Arc<Config>,
    is_kept: AtomicBool,
}

/// A response that was not kept by its handler.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// The request has been answered, or given up.
    #[error("key {key:?}: the request is over; keep its response before the handler returns")]
    Over {
        /// Which claim.
        key: String,
    },
    /// The response broke off.
    #[error("key {key:?}: the response could not be read to its end: {reason}")]
    Body {
        /// Which claim.
        key: String,
        /// Why not.
        reason: String,
    },
    /// The claim is lost, or what was to land with it does not hold, or the store failed.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

impl HeldKey {
    pub(crate) fn new(
        won: ClaimGuard<Recorded>,
        fingerprint: Fingerprint,
        edge: Arc<Config>,
    ) -> Self {
        Self { won, fingerprint, edge, is_kept: AtomicBool::new(false) }
    }

    /// Whether the handler has kept its response by itself.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }
}

impl IdempotencyKey {
    pub(crate) fn under(right: &Arc<HeldKey>) -> Self {
        let won = &right.won;
        let key = Arc::from(won.key().as_str());
        Self {
            key,
            fingerprint: right.fingerprint,
            fence: won.fence(),
            guard: won.guard(),
            right: Arc::downgrade(right),
        }
    }

    /// The whole name of the claim: a key for effects in other systems that is the same in every
    /// retry.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What tells the request from every other under this key. The key can be freed by an operator,
    /// and come again with another request: what has to be known again by both has them both in its
    /// name.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Grows with every process that runs the handler for this key: pass it on to whatever should
    /// refuse those who come late.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// For a commit that must not land once somebody else has the claim.
    pub fn guard(&self) -> Guard {
        self.guard.clone()
    }

    /// Keeps the response in one commit with what it stands for: all of it lands, or none. Return
    /// the response then.
    ///
    /// # Errors
    /// - `Claim` with `Lost` if somebody else has the claim: nothing has landed, and nothing must.
    /// - `Claim` with `Refused` if some part of the commit does not hold; the claim still stands:
    ///   decide again.
    /// - `Over` if the handler has returned.
    pub async fn complete_with<B>(
        &self,
        response: Response<B>,
        commit: Commit,
    ) -> Result<Response<Full<Bytes>>, CompleteError>
    where
        B: Body,
        B::Error: std::fmt::Display,
    {
        let right = self.right()?;
        let (recorded, response) = self.record(&right, response).await?;
        right.won.complete_with(&recorded, commit).await?;
        right.is_kept.store(true, Ordering::Release);
        Ok(response)
    }

    /// The part of a commit that keeps the response, for a commit that somebody else makes: a
    /// decision's, say, or one with SQL of one's own. Make it before the handler returns, and
    /// return the response.
    ///
    /// # Errors
    /// `Over` if the handler has returned; `Claim` if the response cannot be stored.
    pub async fn completion<B>(
        &self,
        response: Response<B>,
    ) -> Result<(RecordWrite, Response<Full<Bytes>>), CompleteError>
    where
        B: Body,
        B::Error: std::fmt::Display,
    {
        let right = self.right()?;
        let (recorded, response) = self.record(&right, response).await?;
        Ok((right.won.completion(&recorded)?, response))
    }

    fn right(&self) -> Result<Arc<HeldKey>, CompleteError> {
        self.right.upgrade().ok_or_else(|| CompleteError::Over { key: self.key.to_string() })
    }

    async fn record<B>(
        &self,
        right: &HeldKey,
        response: Response<B>,
    ) -> Result<(Recorded, Response<Full<Bytes>>), CompleteError>
    where
        B: Body,
        B::Error: std::fmt::Display,
    {
        let (parts, body) = response.into_parts();
        let broke_off =
            |e: B::Error| CompleteError::Body { key: self.key.to_string(), reason: e.to_string() };
        let bytes = body.collect().await.map_err(broke_off)?.to_bytes();
        let recorded = Recorded::new(&parts, bytes.clone(), &right.edge.options.left_out);
        Ok((recorded, Response::from_parts(parts, Full::new(bytes))))
    }
}
