//! The executor for sqlx 0.8.

use sqlx08 as sqlx;

crate::executor::executor!(|sql: &str| sql);
