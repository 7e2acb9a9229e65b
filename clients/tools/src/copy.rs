//! Databases and containers of one account in another account, under the same or other names.
//!
//! A copy has the settings, scripts and items of its origin; the definition of a database says what
//! the settings are. The system properties of items (`_ts`, `_etag`, `_rid`) are new.
//!
//! Promises: a container that exists in the target is refused before anything is written, and a
//! database that exists there keeps its settings.
//! Leaves out: users and permissions, and an origin that changes meanwhile (`transfer` says what is
//! read then).

use crate::definition::{
    ContainerDefinition, DatabaseDefinition, Definition, DefinitionError, ExistingMode, apply, dump,
};
use crate::transfer::{CsvRules, ImportOptions, Mode, Progress, TransferError, import};
use orrery_client::{Client, container_link, database_link};
use serde_json::Value;

/// Requests in flight, and items of one request, as `orrery import` has them.
const CONCURRENCY: usize = 32;
const BATCH: usize = 100;

/// The part of an account to copy, and its names in the target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// The database; all databases without it.
    pub database: Option<String>,
    /// The containers of the database; all without one.
    pub containers: Vec<String>,
    /// Name of the database in the target; the same without it.
    pub as_database: Option<String>,
    /// Name of the one container in the target; the same without it.
    pub as_container: Option<String>,
}

/// A container to copy, or a database that has none.
#[derive(Debug)]
pub struct Step {
    /// The database in the target, with the one container.
    database: DatabaseDefinition,
    /// Link and place, `shop/orders`, of the container in the source.
    origin: Option<(String, String)>,
    /// The place in the target.
    place: String,
}

impl Selection {
    /// Refuses a selection whose containers, as far as they are named, exist in the target.
    ///
    /// # Errors
    /// [`TransferError::Usage`] for a container that exists, and the failure of a request.
    pub async fn refuse_existing(&self, target: &Client) -> Result<(), TransferError> {
        let Some(database) = self.as_database.as_ref().or(self.database.as_ref()) else {
            return Ok(());
        };
        for container in &self.containers {
            let name = self.as_container.as_ref().unwrap_or(container);
            refuse_container(target, database, name).await?;
        }
        Ok(())
    }

    /// Returns the steps of a copy, none of whose containers exists in the target.
    ///
    /// # Errors
    /// [`TransferError::Usage`] for a database or container that the source lacks or the target
    /// has, and the failure of a request.
    pub async fn steps(
        &self,
        source: &Client,
        target: &Client,
    ) -> Result<Vec<Step>, TransferError> {
        if let Some(database) = &self.database {
            let existing = source.databases().await?;
            let ids = existing.iter().filter_map(|one| one["id"].as_str());
            let ids: Vec<&str> = ids.collect();
            refuse_unknown("database", database, &ids)?;
        }
        let definition = dump(source, self.database.as_deref(), false).await;
        let steps = self.steps_of(definition.map_err(failed)?)?;
        for step in &steps {
            for container in &step.database.containers {
                refuse_container(target, &step.database.id, &container.id).await?;
            }
            refuse_other_keys(target, &step.database).await?;
        }
        Ok(steps)
    }

    /// Returns the steps for a definition of the source.
    fn steps_of(&self, definition: Definition) -> Result<Vec<Step>, TransferError> {
        let mut steps = Vec::new();
        for mut database in definition.databases {
            let id = database.id.clone();
            let mut containers = std::mem::take(&mut database.containers);
            let ids: Vec<&str> = containers.iter().map(|one| one.id.as_str()).collect();
            for container in &self.containers {
                refuse_unknown("container", container, &ids)?;
            }
            if !self.containers.is_empty() {
                containers.retain(|one| self.containers.contains(&one.id));
            }
            if let Some(name) = &self.as_database {
                database.id.clone_from(name);
            }
            if containers.is_empty() {
                steps.push(Step::of_database(database));
                continue;
            }
            for container in containers {
                steps.push(self.step_of(&id, &database, container));
            }
        }
        Ok(steps)
    }

    /// Returns the step for a container of the database `id`.
    fn step_of(
        &self,
        id: &str,
        database: &DatabaseDefinition,
        mut container: ContainerDefinition,
    ) -> Step {
        let origin = container_link(id, &container.id);
        let origin_place = format!("{id}/{}", container.id);
        if let Some(name) = &self.as_container {
            container.id.clone_from(name);
        }
        Step {
            place: format!("{}/{}", database.id, container.id),
            database: DatabaseDefinition {
                id: database.id.clone(),
                throughput: database.throughput,
                client_encryption_keys: database.client_encryption_keys.clone(),
                containers: vec![container],
            },
            origin: Some((origin, origin_place)),
        }
    }
}

impl Step {
    fn of_database(database: DatabaseDefinition) -> Self {
        Self {
            place: database.id.clone(),
            database,
            origin: None,
        }
    }

    /// Returns the place in the target: `shop/orders`, or `shop` for a database without containers.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the place in the source.
    pub fn origin(&self) -> &str {
        match &self.origin {
            Some((_, place)) => place,
            None => &self.place,
        }
    }

    /// Creates the database, if it is missing, and the container, and copies the items. Returns
    /// the number of items.
    ///
    /// # Errors
    /// [`TransferError::Usage`] if the container has been created by another meanwhile, the failure
    /// of a request, or the reason for which an item was refused.
    pub async fn run(
        self,
        source: &Client,
        target: &Client,
        progress: &dyn Progress,
    ) -> Result<u64, TransferError> {
        let database = self.database.id.clone();
        let container = self.database.containers.first();
        let container = container.map(|container| container.id.clone());
        let definition = Definition {
            databases: vec![self.database],
        };
        let applied = apply(target, definition, ExistingMode::Keep).await;
        let applied = applied.map_err(failed)?;
        let (Some(container), Some((link, _))) = (container, self.origin) else {
            return Ok(0);
        };
        if !applied
            .created
            .contains(&format!("container {}", self.place))
        {
            return Err(exists(&database, &container));
        }
        let options = ImportOptions {
            files: Vec::new(),
            from: Some((source.clone(), link)),
            database,
            container,
            mode: Mode::Create,
            create: None,
            format: None,
            csv: CsvRules::default(),
            allows_missing_key: true,
            dead_letter: None,
            checkpoint: None,
            is_dry_run: false,
            rate: None,
            concurrency: CONCURRENCY,
            batch: BATCH,
        };
        let summary = import(target, &options, progress).await?;
        Ok(summary.counts.created)
    }
}

/// Refuses a container that exists.
async fn refuse_container(
    target: &Client,
    database: &str,
    container: &str,
) -> Result<(), TransferError> {
    let link = container_link(database, container);
    match target.read_container(&link, false).await {
        Ok(_) => Err(exists(database, container)),
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Refuses a database whose client encryption keys have the ids of others in the target: clients
/// could not decrypt the copies.
async fn refuse_other_keys(
    target: &Client,
    database: &DatabaseDefinition,
) -> Result<(), TransferError> {
    const WRAPPED: &str = "wrappedDataEncryptionKey";
    if database.client_encryption_keys.is_empty() {
        return Ok(());
    }
    let existing = match target.encryption_keys(&database_link(&database.id)).await {
        Ok(existing) => existing,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    for key in &database.client_encryption_keys {
        let is_other = |one: &&Value| one["id"] == key["id"] && one[WRAPPED] != key[WRAPPED];
        if existing.iter().find(is_other).is_some() {
            return Err(TransferError::Usage(format!(
                "the database {} has another client encryption key {} in the account: name another \
                 database with --as-database",
                database.id, key["id"]
            )));
        }
    }
    Ok(())
}

fn exists(database: &str, container: &str) -> TransferError {
    TransferError::Usage(format!(
        "the container {database}/{container} exists in the account: name the copy otherwise with \
         --as-container or --as-database, or delete that container"
    ))
}

/// Refuses a name that is not in the source.
fn refuse_unknown(kind: &str, name: &str, existing: &[&str]) -> Result<(), TransferError> {
    if existing.contains(&name) {
        return Ok(());
    }
    let mut known = existing.to_vec();
    known.sort_unstable();
    let known = match known.is_empty() {
        true => "there is none".to_owned(),
        false => format!("there are: {}", known.join(", ")),
    };
    Err(TransferError::Usage(format!(
        "there is no {kind} '{name}' to copy; {known}"
    )))
}

fn failed(error: DefinitionError) -> TransferError {
    TransferError::Failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database with containers of these names.
    fn database(id: &str, containers: &[&str]) -> DatabaseDefinition {
        let container = |id: &&str| ContainerDefinition {
            id: (*id).to_owned(),
            ..ContainerDefinition::default()
        };
        DatabaseDefinition {
            id: id.to_owned(),
            containers: containers.iter().map(container).collect(),
            ..DatabaseDefinition::default()
        }
    }

    /// Returns the places of the steps, in the source and in the target.
    fn places(selection: &Selection, databases: Vec<DatabaseDefinition>) -> Vec<(String, String)> {
        let steps = selection.steps_of(Definition { databases });
        let steps = steps.expect("a selection that exists");
        let place = |step: &Step| (step.origin().to_owned(), step.place().to_owned());
        steps.iter().map(place).collect()
    }

    #[test]
    fn a_whole_account_keeps_its_names() {
        let account = vec![
            database("empty", &[]),
            database("shop", &["carts", "orders"]),
        ];
        let names = |place: &str| (place.to_owned(), place.to_owned());
        assert_eq!(
            places(&Selection::default(), account),
            ["empty", "shop/carts", "shop/orders"].map(names)
        );
    }

    #[test]
    fn a_container_of_a_database_gets_other_names() {
        let selection = Selection {
            database: Some("shop".into()),
            containers: vec!["orders".into()],
            as_database: Some("old".into()),
            as_container: Some("orders-2".into()),
        };
        let shop = || vec![database("shop", &["carts", "orders"])];
        assert_eq!(
            places(&selection, shop()),
            [("shop/orders".to_owned(), "old/orders-2".to_owned())]
        );
        let unknown = Selection {
            containers: vec!["bills".into()],
            ..selection
        };
        let refused = unknown.steps_of(Definition { databases: shop() });
        let message = refused.expect_err("no such container").to_string();
        assert_eq!(
            message,
            "there is no container 'bills' to copy; there are: carts, orders"
        );
    }
}
