//! Authentication and authorization: who the caller is, and what it can do.
//!
//! One layer around every route admits a request (`authorize`). If tokens are configured, a request
//! without one is refused. If none are, every request is a reader's.

mod authorize;
mod caller;
mod role;
mod tokens;

pub(crate) use authorize::{Authorize, admit};
pub(crate) use caller::Caller;
pub use role::Role;
pub use tokens::{TokenError, Tokens};
