//! The layer's configuration: the store's claims, and the options of a route.

use http::request::Parts;
use http::{HeaderMap, HeaderName, Response};
use tidelock::claims::{Claims, Fingerprint, Idempotency};

use crate::body::ResponseBody;
use crate::claim_name;
use crate::idempotency_key::IdempotencyKey;
use crate::key::Key;
use crate::options::Options;
use crate::problem::Problem;
use crate::recorded::Recorded;
use crate::telemetry;

/// The header with the key.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The store's claims, and the options of a route.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) claims: Claims,
    pub(crate) options: Options,
}

impl Config {
    /// The name of the claim for this request, if it has a key.
    pub(crate) fn name(&self, request: &Parts) -> Result<Option<String>, Problem> {
        // Nested layers: the outer one has the claim.
        let taken = request.extensions.get::<IdempotencyKey>().is_some();
        if taken || !self.options.methods.contains(&request.method) {
            return Ok(None);
        }
        match key(&request.headers)? {
            Some(key) => Ok(Some(claim_name::of(self.scope(request)?.as_deref(), &key)?)),
            None if self.options.required => Err(Problem::KeyMissing),
            None => Ok(None),
        }
    }

    fn scope(&self, request: &Parts) -> Result<Option<String>, Problem> {
        let Some(scope) = &self.options.scope else { return Ok(None) };
        scope(request).map(Some).ok_or(Problem::ScopeMissing)
    }

    /// The claim of this name, for a request with this fingerprint.
    pub(crate) fn claim(&self, name: &str, fingerprint: Fingerprint) -> Idempotency {
        let claim = self.claims.idempotency(name).fingerprinted(fingerprint);
        claim.lease(self.options.lease).ttl(self.options.ttl)
    }

    /// The response for a problem.
    pub(crate) fn refuse<B>(&self, problem: Problem) -> Response<ResponseBody<B>> {
        telemetry::answered(problem.code());
        problem.response(&self.options).map(ResponseBody::whole)
    }

    /// The recorded response.
    pub(crate) fn replay<B>(&self, recorded: Recorded) -> Response<ResponseBody<B>> {
        let Some(response) = recorded.replay() else {
            return self.refuse(Problem::ResponseNotKept);
        };
        telemetry::answered("replayed");
        response.map(ResponseBody::whole)
    }
}

/// The key in these headers, if there is one.
fn key(headers: &HeaderMap) -> Result<Option<Key>, Problem> {
    let mut fields = headers.get_all(IDEMPOTENCY_KEY).iter();
    match (fields.next(), fields.next()) {
        (None, _) => Ok(None),
        (Some(field), None) => {
            Key::parse(field.as_bytes()).map(Some).map_err(Problem::KeyMalformed)
        }
        (Some(_), Some(_)) => Err(Problem::KeyMalformed("there is more than one")),
    }
}
