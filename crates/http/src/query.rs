//! The query string of a request, checked against the parameters that the document lists for its
//! route: a misspelled parameter is refused, never ignored.

use std::sync::Arc;

use axum::extract::{Query, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tidelock::problem::Problem;

/// How much of an unknown name is repeated to the client.
const SHOWN: usize = 64;

/// The names of the query parameters of one route.
#[derive(Debug, Clone)]
pub(crate) struct Parameters(pub(crate) Arc<[String]>);

/// Refuses a query with a parameter that the route does not have.
pub(crate) async fn check(
    State(known): State<Parameters>,
    request: Request,
    next: Next,
) -> Response {
    match known.check(request.uri()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Parameters {
    fn check(&self, uri: &http::Uri) -> Result<(), Problem> {
        // What is no query at all is refused here too, on routes that read none.
        let Ok(Query(sent)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
            return Err(Problem::bad_request("query-invalid", "the query cannot be parsed"));
        };
        match sent.iter().find(|(name, _)| !self.0.contains(name)) {
            None => Ok(()),
            Some((name, _)) => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Problem {
        let shown: String = name.chars().take(SHOWN).collect();
        let known = match &*self.0 {
            [] => "this path takes none".to_owned(),
            known => format!("this path takes {}", known.join(", ")),
        };
        let detail = format!("there is no query parameter {shown:?} here; {known}");
        Problem::bad_request("query-invalid", detail)
    }
}
