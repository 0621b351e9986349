//! The executor, for any version of sqlx: the source is the same, the types are not.

/// Implements the executor for the version that is imported as `sqlx`.
macro_rules! executor {
    (|$sql:ident: &str| $text:expr) => {
        use sqlx::postgres::types::Oid;
        use sqlx::postgres::{PgArgumentBuffer, PgConnection, PgRow, PgTypeInfo};
        use sqlx::{Column, Encode, Executor, Postgres, Row, Transaction, Type, ValueRef};
        use tidelock::postgres::{ExecutorError, SqlExecutor, SqlParameter, SqlQuery, SqlRow};
        use tidelock::store::async_trait;

        use crate::connection::{SqlxConnection, SqlxTransaction, sealed};

        impl sealed::Sealed for PgConnection {}

        impl SqlxTransaction for PgConnection {
            fn connection(&mut self) -> SqlxConnection<'_> {
                SqlxConnection(Box::new(Borrowed(self)))
            }
        }

        impl sealed::Sealed for Transaction<'_, Postgres> {}

        impl SqlxTransaction for Transaction<'_, Postgres> {
            fn connection(&mut self) -> SqlxConnection<'_> {
                SqlxConnection(Box::new(Borrowed(&mut *self)))
            }
        }

        struct Borrowed<'c>(&'c mut PgConnection);

        #[async_trait]
        impl SqlExecutor for Borrowed<'_> {
            async fn execute(&mut self, $sql: &str) -> Result<(), ExecutorError> {
                // Without arguments sqlx sends a simple query, which may have several statements.
                let done = (&mut *self.0).execute(sqlx::raw_sql($text)).await;
                done.map(drop).map_err(executor_error)
            }

            /// One round trip each: sqlx has no pipelining.
            async fn query(
                &mut self,
                queries: &[SqlQuery],
            ) -> Result<Vec<Vec<SqlRow>>, ExecutorError> {
                let mut answers = Vec::with_capacity(queries.len());
                for query in queries {
                    let $sql = query.sql();
                    let bound =
                        query.parameters().iter().fold(sqlx::query($text), |bound, parameter| {
                            bound.bind(Raw(parameter.clone()))
                        });
                    let rows = bound.fetch_all(&mut *self.0).await.map_err(executor_error)?;
                    answers.push(rows.iter().map(row).collect::<Result<_, _>>()?);
                }
                Ok(answers)
            }
        }

        /// A parameter whose bytes are passed on.
        struct Raw(SqlParameter);

        impl Type<Postgres> for Raw {
            fn type_info() -> PgTypeInfo {
                PgTypeInfo::with_oid(Oid(0))
            }

            fn compatible(_: &PgTypeInfo) -> bool {
                true
            }
        }

        impl<'q> Encode<'q, Postgres> for Raw {
            fn encode_by_ref(
                &self,
                buffer: &mut PgArgumentBuffer,
            ) -> Result<sqlx::encode::IsNull, sqlx::error::BoxDynError> {
                let Some(bytes) = self.0.bytes() else { return Ok(sqlx::encode::IsNull::Yes) };
                buffer.extend_from_slice(bytes);
                Ok(sqlx::encode::IsNull::No)
            }

            fn produces(&self) -> Option<PgTypeInfo> {
                Some(PgTypeInfo::with_oid(Oid(self.0.oid())))
            }
        }

        fn row(row: &PgRow) -> Result<SqlRow, ExecutorError> {
            let column = |(at, column): (usize, &sqlx::postgres::PgColumn)| {
                let value = row.try_get_raw(at).map_err(executor_error)?;
                let bytes = match value.is_null() {
                    true => None,
                    false => Some(value.as_bytes().map_err(ExecutorError::of_driver)?.to_vec()),
                };
                Ok((column.type_info().oid().map_or(0, |Oid(oid)| oid), bytes))
            };
            let columns = row.columns().iter().enumerate().map(column);
            Ok(SqlRow::new(columns.collect::<Result<Vec<_>, ExecutorError>>()?))
        }

        fn executor_error(error: sqlx::Error) -> ExecutorError {
            let reported = error
                .as_database_error()
                .and_then(|told| Some(ExecutorError::reported(told.code()?, told.message())));
            reported.unwrap_or_else(|| ExecutorError::of_driver(error))
        }
    };
}
pub(crate) use executor;
