//! Who asks, and what they may do.
//!
//! A request is let through by one layer, which is around every route (`gate`). Who has no token
//! may do nothing if there are tokens, and may only look if there are none.

mod authorize;
mod caller;
mod role;
mod tokens;

pub(crate) use authorize::{Authorize, admit};
pub(crate) use caller::Caller;
pub use role::Role;
pub use tokens::{TokenError, Tokens};
