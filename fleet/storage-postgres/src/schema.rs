//! The tables of a store: their creation, and the check of their format.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::connector::explain;

/// The format that this program reads and writes.
pub(crate) const FORMAT: i32 = 2;
/// Attempts to create the tables while other processes do the same.
const ATTEMPTS: usize = 10;

/// Returns true if there are tables, and false if there are none.
///
/// # Errors
/// A sentence, if the format is another one.
pub(crate) async fn is_present(client: &Client, schema: &str) -> Result<bool, String> {
    match format(client, schema).await {
        Ok(Some(FORMAT)) => Ok(true),
        Ok(Some(other)) => Err(format!(
            "the schema '{schema}' has format {other}, and this program knows format {FORMAT}; use \
             the version that wrote it"
        )),
        Ok(None) => Ok(false),
        Err(error) => Err(explain(&error)),
    }
}

/// Returns a sentence about tables whose format another program has changed.
pub(crate) fn changed_format(schema: &str) -> String {
    format!(
        "the schema '{schema}' has another format now than the format {FORMAT} that this program \
         knows; use the version that wrote it"
    )
}

/// Creates the tables if there are none.
///
/// # Errors
/// A sentence, if the format is another one, or the role may not create the tables.
pub(crate) async fn create(client: &Client, schema: &str) -> Result<(), String> {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        if is_present(client, schema).await? {
            return Ok(());
        }
        let tables = include_str!("schema.sql").replace("{schema}", schema);
        let tables = tables + &identity_table(schema);
        // Two processes that create at once collide; the next look finds the tables of the other.
        if let Err(error) = client.batch_execute(&tables).await {
            if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
                return Err(format!(
                    "the tables of the schema '{schema}' cannot be created: {}",
                    explain(&error)
                ));
            }
            last = explain(&error);
        }
    }
    Err(format!(
        "the schema '{schema}' could not be created: {last}"
    ))
}

/// Returns the statement that creates the table of the identity, which older tables lack.
pub(crate) fn identity_table(schema: &str) -> String {
    include_str!("identity.sql").replace("{schema}", schema)
}

/// Returns statements that need every right of a store, and change nothing.
pub(crate) fn writes(schema: &str) -> String {
    let of_table = |(table, column): (&str, &str)| {
        format!(
            "INSERT INTO {schema}.{table} SELECT * FROM {schema}.{table} WHERE false; \
             UPDATE {schema}.{table} SET {column} = {column} WHERE false; \
             DELETE FROM {schema}.{table} WHERE false;"
        )
    };
    [("head", "lsn"), ("history", "lsn"), ("kv", "v")]
        .map(of_table)
        .concat()
}

/// Returns the format of the tables; `None` if there are none.
async fn format(client: &Client, schema: &str) -> Result<Option<i32>, tokio_postgres::Error> {
    let query = format!("SELECT version FROM {schema}.format WHERE one = 1");
    match client.query_opt(&query, &[]).await {
        Ok(row) => row.map(|row| row.try_get(0)).transpose(),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true for the answer of a server that has no such table.
pub(crate) fn is_missing(error: &tokio_postgres::Error) -> bool {
    let code = error.code();
    code == Some(&SqlState::UNDEFINED_TABLE) || code == Some(&SqlState::INVALID_SCHEMA_NAME)
}
