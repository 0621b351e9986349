//! Error responses for customers.

use std::fmt::Display;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tidelock::prelude::*;

pub type Answer<T> = Result<T, Sorry>;

pub struct Sorry {
    status: StatusCode,
    why: String,
}

impl Sorry {
    /// The shop refused the request.
    pub fn no(why: impl Display) -> Self {
        Self { status: StatusCode::CONFLICT, why: why.to_string() }
    }

    /// A decision without events: the shop refused, or could not decide.
    pub fn undecided(error: ExecuteError<String>) -> Self {
        match error {
            ExecuteError::Refused(why) => Self::no(why),
            error => error.into(),
        }
    }
}

/// Every other error is not the customer's fault.
impl<E: std::error::Error> From<E> for Sorry {
    fn from(error: E) -> Self {
        Self { status: StatusCode::SERVICE_UNAVAILABLE, why: error.to_string() }
    }
}

impl IntoResponse for Sorry {
    fn into_response(self) -> Response {
        (self.status, self.why).into_response()
    }
}
