//! The executor for sqlx 0.9, which takes a text only if it is known to be free of user input.

use sqlx09 as sqlx;

// The texts are the store's own; what varies in them is the checked name of its schema.
crate::executor::executor!(|sql: &str| sqlx::AssertSqlSafe(sql.to_owned()));
