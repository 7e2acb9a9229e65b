//! Databases and containers of one account in another account, under the same or other names.
//!
//! A copy has the settings, scripts and items of its origin; the definition of a database says what
//! the settings are. The system properties of items (`_ts`, `_etag`, `_rid`) are new.
//!
//! Promises: a container that exists in the target when the copy begins is refused, or left out,
//! before anything is written. A database that exists there keeps its settings.
//! Leaves out: users and permissions, and an origin that changes meanwhile (`transfer` says what is
//! read then).

use crate::definition::{
    ContainerDefinition, DatabaseDefinition, Definition, DefinitionError, ExistingMode, apply,
    dump, encryption_keys,
};
use crate::transfer::{CsvRules, ImportOptions, Mode, Progress, TransferError, import};
use orrery_client::{Client, container_link, database_link};
use serde_json::Value;

/// The most characters of a name.
const NAME_CHARACTERS_MAX: usize = 255;
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
    /// True if containers that exist in the target are left out; otherwise they are refused.
    pub skips_existing: bool,
}

/// The parts of a copy.
#[derive(Debug, Default)]
pub struct Steps {
    /// The containers, and the databases that have none.
    pub steps: Vec<Step>,
    /// The places of containers that exist in the target and are left out.
    pub skipped: Vec<String>,
}

/// A container to copy, or a database that has none.
#[derive(Debug)]
pub struct Step {
    /// The database in the target, with the one container.
    database: DatabaseDefinition,
    /// The link of the container in the source; `None` for a database that has none.
    link: Option<String>,
    /// The place in the source: `shop/orders`, or `shop` for a database without containers.
    origin: String,
    /// The place in the target.
    place: String,
}

/// A container that was created in the target and has no items yet.
#[derive(Debug)]
pub struct Created {
    /// The link of the container in the source.
    link: String,
    database: String,
    container: String,
}

impl Selection {
    /// Checks before anything is read that the new names can be used, and that the containers, as
    /// far as they are named, do not exist in the target.
    ///
    /// # Errors
    /// [`TransferError::Usage`] for such a name, and the failure of a request.
    pub async fn check(&self, target: &Client) -> Result<(), TransferError> {
        for name in self.as_database.iter().chain(&self.as_container) {
            refuse_unusable(name)?;
        }
        let Some(database) = self.as_database.as_ref().or(self.database.as_ref()) else {
            return Ok(());
        };
        for container in &self.containers {
            let name = self.as_container.as_ref().unwrap_or(container);
            if !self.skips_existing && has_container(target, database, name).await? {
                return Err(exists(database, name));
            }
        }
        Ok(())
    }

    /// Returns the parts of a copy, none of whose containers exists in the target.
    ///
    /// # Errors
    /// [`TransferError::Usage`] for a database or container that the source lacks or the target
    /// has, and the failure of a request.
    pub async fn steps(&self, source: &Client, target: &Client) -> Result<Steps, TransferError> {
        if let Some(database) = &self.database {
            let existing = source.databases().await?;
            let ids = existing.iter().filter_map(|one| one["id"].as_str());
            let ids: Vec<&str> = ids.collect();
            refuse_unknown("database", database, &ids)?;
        }
        let definition = dump(source, self.database.as_deref(), false).await;
        let mut parts = Steps::default();
        for step in self.steps_of(definition.map_err(failed)?)? {
            let (database, container) = (&step.database.id, step.database.containers.first());
            if let Some(container) = container
                && has_container(target, database, &container.id).await?
            {
                if !self.skips_existing {
                    return Err(exists(database, &container.id));
                }
                parts.skipped.push(step.place);
                continue;
            }
            refuse_other_keys(target, &step.database).await?;
            parts.steps.push(step);
        }
        Ok(parts)
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
                steps.push(Step {
                    place: database.id.clone(),
                    database,
                    link: None,
                    origin: id,
                });
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
        let link = container_link(id, &container.id);
        let origin = format!("{id}/{}", container.id);
        // A part of a database brings what the part needs: no throughput that only others share,
        // and no key of others.
        let (mut throughput, mut keys) =
            (database.throughput, database.client_encryption_keys.clone());
        if !self.containers.is_empty() {
            throughput = throughput.filter(|_| container.throughput.is_none());
            keys.retain(|key| is_named(key, container.client_encryption_policy.as_ref()));
        }
        if let Some(name) = &self.as_container {
            container.id.clone_from(name);
        }
        Step {
            place: format!("{}/{}", database.id, container.id),
            database: DatabaseDefinition {
                id: database.id.clone(),
                throughput,
                client_encryption_keys: keys,
                containers: vec![container],
            },
            link: Some(link),
            origin,
        }
    }
}

/// Returns true if an encryption policy names a key.
fn is_named(key: &Value, policy: Option<&Value>) -> bool {
    let paths = policy.and_then(|policy| policy["includedPaths"].as_array());
    let mut paths = paths.into_iter().flatten();
    paths.any(|path| path["clientEncryptionKeyId"] == key["id"])
}

impl Step {
    /// Returns the place in the target: `shop/orders`, or `shop` for a database without containers.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the place in the source.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Creates the database, if it is missing, and the container, which is returned.
    ///
    /// # Errors
    /// [`TransferError::Usage`] if the container has been created by another meanwhile, and the
    /// failure of a request.
    pub async fn create(self, target: &Client) -> Result<Option<Created>, TransferError> {
        let database = self.database.id.clone();
        let container = self.database.containers.first();
        let container = container.map(|container| container.id.clone());
        let definition = Definition {
            databases: vec![self.database],
        };
        let applied = apply(target, definition, ExistingMode::Keep).await;
        let created = applied.map_err(failed)?.created;
        let (Some(container), Some(link)) = (container, self.link) else {
            return Ok(None);
        };
        if !created.contains(&format!("container {}", self.place)) {
            return Err(exists(&database, &container));
        }
        Ok(Some(Created {
            link,
            database,
            container,
        }))
    }
}

impl Created {
    /// Copies the items. Returns their number.
    ///
    /// # Errors
    /// The failure of a request, or the reason for which an item was refused.
    pub async fn copy_items(
        self,
        source: &Client,
        target: &Client,
        progress: &dyn Progress,
    ) -> Result<u64, TransferError> {
        let options = ImportOptions {
            files: Vec::new(),
            from: Some((source.clone(), self.link)),
            database: self.database,
            container: self.container,
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
        match import(target, &options, progress).await {
            Ok(summary) => Ok(summary.counts.created),
            // The advice of an import is not that of a copy.
            Err(TransferError::Ended(ended)) => Err(ended.into_reason()),
            Err(error) => Err(error),
        }
    }
}

async fn has_container(
    target: &Client,
    database: &str,
    container: &str,
) -> Result<bool, TransferError> {
    let link = container_link(database, container);
    match target.read_container(&link, false).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
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
    let existing = encryption_keys(target, &database_link(&database.id)).await?;
    for key in &database.client_encryption_keys {
        let is_other = |one: &Value| one["id"] == key["id"] && one[WRAPPED] != key[WRAPPED];
        if existing.iter().any(is_other) {
            return Err(TransferError::Usage(format!(
                "the client encryption key {} of the database {} is another one in the account, \
                 or was wrapped anew since: name another database with --as-database",
                key["id"], database.id
            )));
        }
    }
    Ok(())
}

fn exists(database: &str, container: &str) -> TransferError {
    TransferError::Usage(format!(
        "the container {database}/{container} exists in the account: name the copy otherwise with \
         --as-container or --as-database, delete that container, or leave it as it is with \
         --skip-existing"
    ))
}

/// Refuses a name that no database and no container can have.
fn refuse_unusable(name: &str) -> Result<(), TransferError> {
    let is_special = |c: char| matches!(c, '/' | '\\' | '#' | '?');
    let is_long = name.chars().count() > NAME_CHARACTERS_MAX;
    if name.is_empty() || is_long || name.ends_with(' ') || name.contains(is_special) {
        return Err(TransferError::Usage(format!(
            "'{name}' is no name of a database or container: it has 1 to {NAME_CHARACTERS_MAX} \
             characters, none of / \\ # ?, and no space at its end"
        )));
    }
    Ok(())
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
    use crate::definition::StatedThroughput;
    use serde_json::json;

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

    fn steps(selection: &Selection, databases: Vec<DatabaseDefinition>) -> Vec<Step> {
        let steps = selection.steps_of(Definition { databases });
        steps.expect("a selection that exists")
    }

    /// Returns the places of the steps, in the source and in the target.
    fn places(selection: &Selection, databases: Vec<DatabaseDefinition>) -> Vec<(String, String)> {
        let place = |step: &Step| (step.origin().to_owned(), step.place().to_owned());
        steps(selection, databases).iter().map(place).collect()
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
    fn a_database_without_containers_gets_another_name() {
        let selection = Selection {
            database: Some("empty".into()),
            as_database: Some("new".into()),
            ..Selection::default()
        };
        assert_eq!(
            places(&selection, vec![database("empty", &[])]),
            [("empty".to_owned(), "new".to_owned())]
        );
    }

    #[test]
    fn a_container_of_a_database_gets_other_names() {
        let selection = Selection {
            database: Some("shop".into()),
            containers: vec!["orders".into()],
            as_database: Some("old".into()),
            as_container: Some("orders-2".into()),
            skips_existing: false,
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

    #[test]
    fn a_part_of_a_database_brings_its_own_keys_and_no_throughput_of_others() {
        let key = |id: &str| json!({"id": id, "wrappedDataEncryptionKey": "AAEC"});
        let mut shop = database("shop", &["orders", "people"]);
        shop.throughput = Some(StatedThroughput::Manual(400));
        shop.client_encryption_keys = vec![key("a"), key("b")];
        shop.containers[0].throughput = Some(StatedThroughput::Manual(500));
        shop.containers[1].client_encryption_policy =
            Some(json!({"includedPaths": [{"path": "/ssn", "clientEncryptionKeyId": "b"}]}));
        let selection = Selection {
            containers: vec!["orders".into(), "people".into()],
            ..Selection::default()
        };
        let steps = steps(&selection, vec![shop]);
        let (orders, people) = (&steps[0].database, &steps[1].database);
        assert!(orders.client_encryption_keys.is_empty());
        assert_eq!(orders.throughput, None);
        assert_eq!(people.client_encryption_keys, [key("b")]);
        assert_eq!(people.throughput, Some(StatedThroughput::Manual(400)));
    }

    #[test]
    fn names_that_no_resource_can_have_are_refused() {
        for name in ["", "a/b", "a#b", "a ", &"x".repeat(256)] {
            assert!(refuse_unusable(name).is_err(), "{name}");
        }
        assert!(refuse_unusable("or ders-é").is_ok());
    }
}
