//! The claim that a handler runs under, as a request extension.
//!
//! It is among the extensions of a request whose key was won. A handler that ignores it has its
//! response recorded after it returns; if its process dies in between, a retry runs it again. A
//! handler whose effects are in the same store can record the response *with* them, in one commit,
//! and is never run again once that has landed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use http::Response;
use http_body::Body;
use http_body_util::{BodyExt, Full};
use tidelock::claims::{ClaimError, ClaimGuard, Fingerprint};
use tidelock::store::{Commit, Fence, Guard, RecordWrite};
use tidelock::{HandlerError, Tx};

use crate::config::Config;
use crate::recorded::Recorded;

/// The claim that a handler runs under.
///
/// With the feature `axum` it is an extractor: a request without a claimed key is answered with
/// 400, and `Option<IdempotencyKey>` is `None` for it. Otherwise take it from the extensions of the
/// request.
#[derive(Debug, Clone)]
pub struct IdempotencyKey {
    key: Arc<str>,
    fingerprint: Fingerprint,
    fence: Fence,
    guard: Guard,
    // Weak, so that the claim ends with the handler even if this value is kept.
    held: Weak<HeldKey>,
}

/// The claimed key, and whether its response was recorded.
#[derive(Debug)]
pub(crate) struct HeldKey {
    pub(crate) won: ClaimGuard<Recorded>,
    fingerprint: Fingerprint,
    pub(crate) config: Arc<Config>,
    is_kept: AtomicBool,
}

/// A response that the handler could not record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// The request has been answered, or abandoned.
    #[error("key {key:?}: the request is over; record its response before the handler returns")]
    Over {
        /// The claim.
        key: String,
    },
    /// The response's body failed.
    #[error("key {key:?}: the response could not be read: {reason}")]
    Body {
        /// The claim.
        key: String,
        /// The reason.
        reason: String,
    },
    /// The claim is lost, or another part of the commit does not hold, or the store failed.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

impl From<CompleteError> for tidelock::Error {
    fn from(error: CompleteError) -> Self {
        match error {
            CompleteError::Claim(error) => error.into(),
            error => HandlerError::fatal(error).into(),
        }
    }
}

impl HeldKey {
    pub(crate) fn new(
        won: ClaimGuard<Recorded>,
        fingerprint: Fingerprint,
        config: Arc<Config>,
    ) -> Self {
        Self { won, fingerprint, config, is_kept: AtomicBool::new(false) }
    }

    /// Whether the handler has recorded its response itself.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Acquire)
    }
}

impl IdempotencyKey {
    pub(crate) fn under(held: &Arc<HeldKey>) -> Self {
        let won = &held.won;
        let key = Arc::from(won.key().as_str());
        Self {
            key,
            fingerprint: held.fingerprint,
            fence: won.fence(),
            guard: won.guard(),
            held: Arc::downgrade(held),
        }
    }

    /// Returns the claim's whole name: an idempotency key for effects in other systems, equal in
    /// every retry.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the request's fingerprint. An operator can free the key, and another request can
    /// then use it: an id that must identify this request should contain both.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the fence, which increases with every process that runs the handler for this key:
    /// pass it to systems that should reject late writers.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Returns a guard for a commit that must not land once the claim is lost.
    pub fn guard(&self) -> Guard {
        self.guard.clone()
    }

    /// Records the response in one commit with its effects: all of it lands, or none. Return the
    /// response afterwards.
    ///
    /// # Errors
    /// - `Claim` with `Lost` if the claim is lost: nothing has landed, and nothing must.
    /// - `Claim` with `Refused` if some part of the commit does not hold; the claim is still held:
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
        let held = self.held()?;
        let (recorded, response) = self.record(&held, response).await?;
        held.won.complete_with(&recorded, commit).await?;
        held.is_kept.store(true, Ordering::Release);
        Ok(response)
    }

    /// Stages the recording of the response in a unit of work: it lands with everything that is
    /// staged there, or not at all. Return the response afterwards.
    ///
    /// # Errors
    /// `LeaseLost` from the commit of the unit of work if the claim is lost: nothing has landed.
    /// `Failed` if the handler has returned, or the body of the response cannot be read.
    ///
    /// # Examples
    /// ```
    /// use axum::extract::State;
    /// use axum::response::{IntoResponse, Response};
    /// use tidelock::prelude::*;
    /// use tidelock_tower::IdempotencyKey;
    ///
    /// async fn place(
    ///     State(tidelock): State<Tidelock>,
    ///     key: IdempotencyKey,
    ///     order: String,
    /// ) -> tidelock::Result<Response> {
    ///     let place = async |tx: Tx| {
    ///         tx.put("orders/last", &order)?;
    ///         key.respond(&tx, format!("placed {order}").into_response()).await
    ///     };
    ///     Ok(tidelock.transact(place).await?.into_response())
    /// }
    /// ```
    pub async fn respond<B>(
        &self,
        tx: &Tx,
        response: Response<B>,
    ) -> tidelock::Result<Response<Full<Bytes>>>
    where
        B: Body,
        B::Error: std::fmt::Display,
    {
        let held = self.held()?;
        let (recorded, response) = self.record(&held, response).await?;
        tx.complete(&held.won, &recorded)?;
        Ok(response)
    }

    /// Returns the part of a commit that records the response, for a commit made elsewhere: that of
    /// a decision, say, or one with your own SQL. Call it before the handler returns, and return
    /// the response.
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
        let held = self.held()?;
        let (recorded, response) = self.record(&held, response).await?;
        Ok((held.won.completion(&recorded)?, response))
    }

    fn held(&self) -> Result<Arc<HeldKey>, CompleteError> {
        self.held.upgrade().ok_or_else(|| CompleteError::Over { key: self.key.to_string() })
    }

    async fn record<B>(
        &self,
        held: &HeldKey,
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
        let recorded = Recorded::new(&parts, bytes.clone(), &held.config.options.left_out);
        Ok((recorded, Response::from_parts(parts, Full::new(bytes))))
    }
}
