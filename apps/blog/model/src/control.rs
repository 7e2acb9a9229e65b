//! The application's own data, in a database beside those of the models.
//!
//! | container | partition key | items |
//! |---|---|---|
//! | `state` | `/id` | the home model, the present models, a migration in progress |
//! | `leases` | `/pipeline` | one for each pipeline and range of a change feed: owner, position |
//! | `deadLetters` | `/pipeline` | changes that a pipeline could not process |
//! | `accounts` | `/id` | passwords by user, and claims of names in lower case |
//! | `sessions` | `/id` | signed-in browsers, with a time to live |
//! | `writes` | `/id` | write operations by the token of their form, with a time to live |

use crate::{BlogError, Client};

/// Provisioned RU/s of each container.
const THROUGHPUT: u32 = 6_000;

/// Containers and their partition key paths.
const CONTAINERS: [(&str, &str); 6] = [
    ("state", "/id"),
    ("leases", "/pipeline"),
    ("deadLetters", "/pipeline"),
    ("accounts", "/id"),
    ("sessions", "/id"),
    ("writes", "/id"),
];

/// The links of the application's own containers.
#[derive(Clone)]
pub struct Control {
    /// The client for requests to these containers.
    pub client: Client,
    /// Name of the database.
    pub database: String,
    /// Link of the container `state`.
    pub state: String,
    /// Link of the container `leases`.
    pub leases: String,
    /// Link of the container `deadLetters`.
    pub dead_letters: String,
    /// Link of the container `accounts`.
    pub accounts: String,
    /// Link of the container `sessions`.
    pub sessions: String,
    /// Link of the container `writes`.
    pub writes: String,
}

impl Control {
    /// Returns the containers of the database `{prefix}-control`, which need not exist yet.
    pub fn new(client: Client, prefix: &str) -> Self {
        let database = format!("{prefix}-control");
        let link = |container: &str| format!("dbs/{database}/colls/{container}");
        Self {
            client,
            state: link("state"),
            leases: link("leases"),
            dead_letters: link("deadLetters"),
            accounts: link("accounts"),
            sessions: link("sessions"),
            writes: link("writes"),
            database,
        }
    }

    /// Returns the prefix of all names of databases.
    pub fn prefix(&self) -> &str {
        let suffix = "-control";
        self.database.strip_suffix(suffix).unwrap_or(&self.database)
    }

    /// Creates the database and its containers as far as they do not exist.
    ///
    /// # Errors
    /// Every error of a request other than a conflict.
    pub async fn create_missing(&self) -> Result<(), BlogError> {
        existing_is_fine(self.client.create_database(&self.database).await)?;
        let database = format!("dbs/{}", self.database);
        for (name, key_path) in CONTAINERS {
            let created = self
                .client
                .create_container(&database, name, key_path, THROUGHPUT)
                .await;
            existing_is_fine(created)?;
        }
        Ok(())
    }
}

/// Turns the conflict with a resource that exists already into success.
pub(crate) fn existing_is_fine(created: Result<(), BlogError>) -> Result<(), BlogError> {
    match created {
        Err(e) if !e.is_conflict() => Err(e),
        _ => Ok(()),
    }
}
