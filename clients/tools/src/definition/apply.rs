//! Applies a definition to an account: creates what is missing, in an order in which each request
//! can succeed, and leaves equal resources as they are.
//!
//! Applying the same definition again changes nothing. Resources that the definition does not
//! state stay as they are.

use super::matching::matches;
use super::members::Members;
use super::model::{ContainerDefinition, DatabaseDefinition, Definition};
use super::{DefinitionError, failed};
use orrery_client::{
    Client, ClientError, PartitionKey, ScriptKind, Throughput, container_link, database_link,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Items that are created at the same time.
const PARALLEL_ITEMS: usize = 16;

/// Handling of resources that exist with other settings than the definition states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExistingMode {
    /// The difference is an error.
    Refuse,
    /// The resource stays as it is.
    Keep,
    /// The resource gets the stated settings; items are replaced.
    Replace,
}

/// The work of one application.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct AppliedChanges {
    /// Resources that were created, for example `container shop/orders`; without items.
    pub created: Vec<String>,
    /// Resources that were changed.
    pub changed: Vec<String>,
    /// Items that were created or replaced.
    pub items: usize,
    /// Items that existed and stayed as they are.
    pub existing_items: usize,
}

impl AppliedChanges {
    /// Says what was done: a line for each resource, and one with the counts.
    pub fn lines(&self) -> Vec<String> {
        let created = self.created.iter().map(|name| format!("created {name}"));
        let changed = self.changed.iter().map(|name| format!("changed {name}"));
        let mut lines: Vec<String> = created.chain(changed).collect();
        lines.push(format!(
            "the definition is in effect: {} resources created, {} changed, {} items written, {} \
             items existed",
            self.created.len(),
            self.changed.len(),
            self.items,
            self.existing_items
        ));
        lines
    }
}

/// Applies `definition` to the account of `client`.
///
/// # Errors
/// The first failure; what was created before it stays.
pub async fn apply(
    client: &Client,
    definition: Definition,
    mode: ExistingMode,
) -> Result<AppliedChanges, DefinitionError> {
    let mut application = Application {
        client,
        mode,
        done: AppliedChanges::default(),
    };
    for database in definition.databases {
        application.database(database).await?;
    }
    Ok(application.done)
}

struct Application<'a> {
    client: &'a Client,
    mode: ExistingMode,
    done: AppliedChanges,
}

impl Application<'_> {
    async fn database(&mut self, database: DatabaseDefinition) -> Result<(), DefinitionError> {
        let name = format!("database {}", database.id);
        let link = database_link(&database.id);
        let throughput = database.throughput.map(Throughput::from);
        match self.client.read(&link).await {
            Ok(_) => self.throughput(&name, &link, throughput).await?,
            Err(error) if error.is_not_found() => {
                let created = self.client.create_database(&database.id, throughput).await;
                created.map_err(failed(&name))?;
                self.done.created.push(name);
            }
            Err(error) => return Err(failed(&name)(error)),
        }
        // The encryption policies of containers name the keys.
        let feed = format!("{link}/clientencryptionkeys");
        for key in &database.client_encryption_keys {
            let name = format!("client encryption key {}/{}", database.id, id_of(key));
            self.named_resource(name, &feed, key, "wrapped key").await?;
        }
        for container in database.containers {
            self.container(&database.id, container).await?;
        }
        Ok(())
    }

    /// Creates a resource that a definition alone describes, or compares the existing one with
    /// it. `fields` names what can differ.
    async fn named_resource(
        &mut self,
        name: String,
        feed: &str,
        definition: &Value,
        fields: &str,
    ) -> Result<(), DefinitionError> {
        let link = format!("{feed}/{}", id_of(definition));
        match self.client.read(&link).await {
            Ok(answer) => {
                let actual: Value = answer.json().map_err(failed(&name))?;
                if matches(definition, &actual) || self.mode == ExistingMode::Keep {
                    return Ok(());
                }
                if self.mode == ExistingMode::Refuse {
                    return Err(differs(&name, fields));
                }
                let replaced = self.client.replace(&link, definition).await;
                replaced.map_err(failed(&name))?;
                self.done.changed.push(name);
            }
            Err(error) if error.is_not_found() => {
                let created = self.client.create(feed, definition).await;
                created.map_err(failed(&name))?;
                self.done.created.push(name);
            }
            Err(error) => return Err(failed(&name)(error)),
        }
        Ok(())
    }

    async fn container(
        &mut self,
        database: &str,
        mut container: ContainerDefinition,
    ) -> Result<(), DefinitionError> {
        let place = format!("{database}/{}", container.id);
        let name = format!("container {place}");
        let link = container_link(database, &container.id);
        let throughput = container.throughput.map(Throughput::from);
        let body = match self.client.read_container(&link, false).await {
            Ok(answer) => {
                let actual = answer.json().map_err(failed(&name))?;
                self.settings(&name, &link, &mut container, &actual).await?;
                self.throughput(&name, &link, throughput).await?;
                actual
            }
            Err(error) if error.is_not_found() => {
                let home = database_link(database);
                let body = container.body();
                let created = self.client.create_container(&home, &body, throughput);
                let answer = created.await.map_err(failed(&name))?;
                self.done.created.push(name.clone());
                answer.json::<Value>().map_err(failed(&name))?
            }
            Err(error) => return Err(failed(&name)(error)),
        };

        // Scripts come before the items: triggers do not run for items of a definition.
        for (kind, word, scripts) in scripts_of(&container) {
            let feed = format!("{link}/{}", kind.resource_type());
            for script in scripts {
                let name = format!("{word} {place}/{}", id_of(&script));
                self.named_resource(name, &feed, &script, "text or kind")
                    .await?;
            }
        }
        let paths = body["partitionKey"]["paths"]
            .as_array()
            .into_iter()
            .flatten();
        let paths: Vec<String> = paths.filter_map(Value::as_str).map(str::to_owned).collect();
        self.items(&place, &link, &paths, container.items).await
    }

    /// Compares the settings of an existing container with the stated ones.
    async fn settings(
        &mut self,
        name: &str,
        link: &str,
        container: &mut ContainerDefinition,
        actual: &Value,
    ) -> Result<(), DefinitionError> {
        let mut wanted = actual.clone();
        let mut differing = Vec::new();
        for (setting, stated) in container.settings() {
            let Some(stated) = stated else { continue };
            if matches(stated, &actual[setting]) {
                continue;
            }
            if let Some(wanted) = wanted.as_object_mut() {
                wanted.insert(setting.to_owned(), stated.clone());
            }
            differing.push(setting);
        }
        if differing.is_empty() || self.mode == ExistingMode::Keep {
            return Ok(());
        }
        if self.mode == ExistingMode::Refuse {
            return Err(differs(name, &differing.join(", ")));
        }
        let replaced = self.client.replace(link, &wanted).await;
        replaced.map_err(failed(name))?;
        self.done
            .changed
            .push(format!("{name}: {}", differing.join(", ")));
        Ok(())
    }

    /// Compares the throughput of an existing resource with the stated one.
    async fn throughput(
        &mut self,
        name: &str,
        link: &str,
        stated: Option<Throughput>,
    ) -> Result<(), DefinitionError> {
        let Some(stated) = stated else { return Ok(()) };
        let offer = self.client.offer(link).await.map_err(failed(name))?;
        let is_equal = offer
            .as_ref()
            .is_some_and(|offer| offer.throughput == stated);
        if is_equal || self.mode == ExistingMode::Keep {
            return Ok(());
        }
        match offer {
            Some(offer) if self.mode == ExistingMode::Replace => {
                let set = self.client.set_throughput(&offer, stated).await;
                set.map_err(failed(name))?;
                self.done.changed.push(format!("{name}: throughput"));
                Ok(())
            }
            None if self.mode == ExistingMode::Replace => Err(DefinitionError::Differs(format!(
                "{name} exists without a throughput of its own; only a new one can have it"
            ))),
            _ => Err(differs(name, "throughput")),
        }
    }

    async fn items(
        &mut self,
        place: &str,
        link: &str,
        paths: &[String],
        items: Vec<Box<RawValue>>,
    ) -> Result<(), DefinitionError> {
        let replaces = self.mode == ExistingMode::Replace;
        let mut running = JoinSet::new();
        for (at, item) in items.into_iter().enumerate() {
            let name = format!("item {} of container {place}", at + 1);
            let members = Members::parse(item.get())
                .map_err(|reason| DefinitionError::File(format!("{name}: {reason}")))?;
            let Some(id) = members.id() else {
                return Err(DefinitionError::File(format!(
                    "{name}: the id must be a string; it names the item when the definition is \
                     applied again"
                )));
            };
            let (client, link) = (self.client.clone(), link.to_owned());
            let key = PartitionKey::from_json(&members.key(paths));
            let name = format!("{name} ('{id}')");
            running.spawn(async move {
                let text = item.get().to_owned();
                let created = create_item(&client, &link, &key, &id, text, replaces).await;
                created.map_err(failed(name))
            });
            if running.len() == PARALLEL_ITEMS {
                self.count(&mut running).await?;
            }
        }
        while !running.is_empty() {
            self.count(&mut running).await?;
        }
        Ok(())
    }

    /// Waits for one item.
    async fn count(
        &mut self,
        running: &mut JoinSet<Result<bool, DefinitionError>>,
    ) -> Result<(), DefinitionError> {
        match running.join_next().await {
            Some(Ok(Ok(true))) => self.done.items += 1,
            Some(Ok(Ok(false))) => self.done.existing_items += 1,
            Some(Ok(Err(error))) => return Err(error),
            Some(Err(error)) => return Err(DefinitionError::File(error.to_string())),
            None => {}
        }
        Ok(())
    }
}

/// Creates an item, or replaces it. Returns false if it existed and stays as it is.
async fn create_item(
    client: &Client,
    link: &str,
    key: &PartitionKey,
    id: &str,
    text: String,
    replaces: bool,
) -> Result<bool, ClientError> {
    if replaces {
        return client.upsert_item(link, key, text).await.map(|_| true);
    }
    match client.create_item(link, key, text).await {
        Ok(_) => Ok(true),
        // A unique key of another item is refused with 409 too; then there is no item to keep.
        Err(error) if error.is_conflict() => match client.read_item(link, key, id).await {
            Ok(_) => Ok(false),
            Err(_) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// Returns the scripts of a container as bodies of requests.
fn scripts_of(container: &ContainerDefinition) -> [(ScriptKind, &'static str, Vec<Value>); 3] {
    let body = |script: &super::Script| json!({"id": script.id, "body": script.body});
    let procedures = container.stored_procedures.iter().map(body).collect();
    let functions = container.user_defined_functions.iter().map(body).collect();
    let triggers = container.triggers.iter().map(|trigger| {
        json!({"id": trigger.id, "body": trigger.body, "triggerType": trigger.trigger_type,
            "triggerOperation": trigger.trigger_operation})
    });
    [
        (ScriptKind::Procedure, "stored procedure", procedures),
        (ScriptKind::Function, "user-defined function", functions),
        (ScriptKind::Trigger, "trigger", triggers.collect()),
    ]
}

fn id_of(definition: &Value) -> &str {
    definition["id"].as_str().unwrap_or_default()
}

fn differs(name: &str, fields: &str) -> DefinitionError {
    DefinitionError::Differs(format!(
        "{name} exists with another {fields} than the definition states; the mode 'keep' leaves it \
         as it is, and 'replace' changes what the service lets change"
    ))
}
