//! The authorization layer around every route.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, StatusCode};
use tidelock::problem::Problem;

use super::caller::Caller;
use super::role::Role;
use crate::app_state::AppState;
use crate::extract;
use crate::routes::Needs;

/// The authorization layer's state for one route.
#[derive(Debug, Clone)]
pub(crate) struct Authorize {
    pub(crate) served: AppState,
    pub(crate) needs: Needs,
}

/// Admits a request to its route if the caller's role allows it.
pub(crate) async fn admit(
    State(gate): State<Authorize>,
    mut request: Request,
    next: Next,
) -> Response {
    match gate.caller(request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(problem) => problem.into_response(),
    }
}

impl Authorize {
    fn caller(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let Needs::Role(needed) = self.needs else { return Ok(Caller::ANONYMOUS) };
        let caller = self.known(headers)?;
        match caller.role >= needed {
            true => Ok(caller),
            false => Err(self.too_low(&caller, needed)),
        }
    }

    fn known(&self, headers: &HeaderMap) -> Result<Caller, Problem> {
        let Some(tokens) = &self.served.setup.tokens else { return Ok(Caller::ANONYMOUS) };
        let token = bearer(headers)?.ok_or_else(|| {
            unauthorized(
                "this request needs a token: send it in the header Authorization: Bearer TOKEN",
            )
        })?;
        tokens.caller(token).cloned().ok_or_else(|| {
            unauthorized("the token is unknown: ask the operator of this server for one")
        })
    }

    fn too_low(&self, caller: &Caller, needed: Role) -> Problem {
        let detail = match self.served.setup.tokens {
            Some(_) => {
                format!(
                    "{:?} has the role {}, and this request needs the role {needed}",
                    caller.shown(),
                    caller.role
                )
            }
            None => format!(
                "without tokens this server is read-only, and this request needs the role {needed}: give it tokens (tidelock serve --tokens FILE, with a line like: {needed} NAME TOKEN)"
            ),
        };
        Problem::forbidden("role-too-low", detail).with("needs", needed).with("has", caller.role)
    }
}

/// The token in the header, if there is one.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Problem> {
    let Some(field) = extract::header(headers, &AUTHORIZATION)? else { return Ok(None) };
    match field.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(unauthorized("the header Authorization has to be of the form: Bearer TOKEN")),
    }
}

fn unauthorized(detail: &str) -> Problem {
    let challenge = HeaderValue::from_static("Bearer realm=\"tidelock\"");
    Problem::new(StatusCode::UNAUTHORIZED, "token-needed", detail)
        .header(WWW_AUTHENTICATE, challenge)
}
