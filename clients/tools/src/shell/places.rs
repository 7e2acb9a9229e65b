//! Databases and containers of a session.

use super::fault::ShellError;
use super::names::ids;
use super::session::{Session, note, say};
use orrery_client::{Throughput, container_link, database_link};
use serde_json::{Value, json};

/// Items that `ls` prints in a container.
const LISTED_ITEMS: usize = 20;

impl Session {
    /// Prints the databases.
    pub(super) async fn list_databases(&mut self) -> Result<(), ShellError> {
        let databases = self.client.databases().await?;
        self.names.set_databases(&databases);
        say(&lines(ids(&databases)))
    }

    /// Prints the containers of a database, by default of the current one, with their partition
    /// keys.
    pub(super) async fn list_containers(
        &mut self,
        database: Option<String>,
    ) -> Result<(), ShellError> {
        let Some(database) = database.or_else(|| self.database.clone()) else {
            return Err("no database is chosen: .containers DATABASE"
                .to_owned()
                .into());
        };
        let containers = self.client.containers(&database_link(&database)).await?;
        self.names.set_containers(&database, &containers);
        let described = containers.iter().filter_map(|container| {
            let id = container["id"].as_str()?;
            Some(format!("{id}  {}", paths(container)))
        });
        say(&lines(described))
    }

    /// Prints what is at a place: databases, containers, or the first items.
    pub(super) async fn list(&mut self, path: Option<String>) -> Result<(), ShellError> {
        let (database, container) = match path {
            Some(path) => self.resolved(&path)?,
            None => (self.database.clone(), self.container.clone()),
        };
        match (database, container) {
            (None, _) => self.list_databases().await,
            (Some(database), None) => self.list_containers(Some(database)).await,
            (Some(database), Some(container)) => {
                let link = container_link(&database, &container);
                let text = format!("SELECT TOP {LISTED_ITEMS} * FROM c");
                self.query_in(link, &text).await
            }
        }
    }

    /// Goes to a path. A place that does not exist is an error, and the session stays where it is.
    pub(super) async fn go_to(&mut self, path: &str) -> Result<(), ShellError> {
        let (database, container) = self.resolved(path)?;
        self.change_place(database, container).await
    }

    /// Goes to a database, given by its name, and to one of its containers.
    pub(super) async fn use_place(
        &mut self,
        database: &str,
        container: Option<String>,
    ) -> Result<(), ShellError> {
        self.change_place(Some(database.to_owned()), container)
            .await
    }

    async fn change_place(
        &mut self,
        database: Option<String>,
        container: Option<String>,
    ) -> Result<(), ShellError> {
        match (&database, &container) {
            (Some(database), Some(container)) => {
                let link = container_link(database, container);
                self.client.read_container(&link, false).await?;
            }
            (Some(database), None) => {
                self.client.read(&database_link(database)).await?;
            }
            (None, _) => {}
        }
        self.names.lock().database = database.clone();
        (self.database, self.container) = (database, container);
        Ok(())
    }

    /// Returns the place of a path. `/shop/orders` begins at the account; `shop/orders` is the same
    /// where no database is chosen, and in a database a single name is a container.
    fn resolved(&self, path: &str) -> Result<(Option<String>, Option<String>), ShellError> {
        let mut place: Vec<String> = Vec::new();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let is_up = parts.first() == Some(&"..") || parts.first() == Some(&".");
        let begins_at_account = path.starts_with('/') || (parts.len() > 1 && !is_up);
        if !begins_at_account {
            place.extend(self.database.clone());
            // A name beside the current container replaces it.
            place.extend(self.container.clone().filter(|_| is_up));
        }
        for part in parts {
            match part {
                "." => {}
                ".." => {
                    place.pop();
                }
                name => place.push(name.to_owned()),
            }
        }
        let mut place = place.into_iter();
        let found = (place.next(), place.next());
        match place.next() {
            None => Ok(found),
            Some(_) => Err(format!("'{path}' is no path: the form is /DATABASE/CONTAINER").into()),
        }
    }

    /// Creates a database.
    pub(super) async fn create_database(&mut self, id: &str) -> Result<(), ShellError> {
        self.client.create_database(id, None).await?;
        self.names.set_containers(id, &[]);
        note(&format!("created database {id}"));
        Ok(())
    }

    /// Creates a container; `paths` are separated by commas.
    pub(super) async fn create_container(
        &mut self,
        id: &str,
        paths: &str,
        throughput: Option<&str>,
    ) -> Result<(), ShellError> {
        let database = self.database_link()?;
        let paths: Vec<&str> = paths.split(',').collect();
        if let Some(path) = paths.iter().find(|path| !path.starts_with('/')) {
            return Err(format!("'{path}' is no path: a path begins with '/'").into());
        }
        let throughput = match throughput.map(str::parse) {
            None => None,
            Some(Ok(rate)) => Some(Throughput::Manual(rate)),
            Some(Err(_)) => return Err("the throughput is no number of RU/s".to_owned().into()),
        };
        let kind = if paths.len() > 1 { "MultiHash" } else { "Hash" };
        let definition = json!({
            "id": id,
            "partitionKey": {"paths": paths, "kind": kind, "version": 2},
        });
        self.client
            .create_container(&database, &definition, throughput)
            .await?;
        self.learn_containers().await?;
        note(&format!("created container {id}"));
        Ok(())
    }

    /// Deletes a database, with consent.
    pub(super) async fn delete_database(&mut self, id: &str) -> Result<(), ShellError> {
        self.consent(&format!("delete database {id} with all its containers"))?;
        self.client.delete(&database_link(id)).await?;
        self.definitions.clear();
        self.names.lock().databases.remove(id);
        if self.database.as_deref() == Some(id) {
            (self.database, self.container) = (None, None);
            self.names.lock().database = None;
        }
        note(&format!("deleted database {id}"));
        Ok(())
    }

    /// Deletes a container of the current database, with consent.
    pub(super) async fn delete_container(&mut self, id: &str) -> Result<(), ShellError> {
        let database = self.database_link()?;
        self.consent(&format!("delete container {id} with all its items"))?;
        self.client
            .delete(&format!("{database}/colls/{id}"))
            .await?;
        self.definitions.clear();
        if self.container.as_deref() == Some(id) {
            self.container = None;
        }
        self.learn_containers().await?;
        note(&format!("deleted container {id}"));
        Ok(())
    }

    async fn learn_containers(&mut self) -> Result<(), ShellError> {
        let containers = self.client.containers(&self.database_link()?).await?;
        let database = self.database.clone().unwrap_or_default();
        self.names.set_containers(&database, &containers);
        Ok(())
    }
}

/// Returns the partition key paths of a container, for example `/customer`.
pub(super) fn paths(container: &Value) -> String {
    let paths = container["partitionKey"]["paths"].as_array();
    let paths = paths.into_iter().flatten().filter_map(Value::as_str);
    paths.collect::<Vec<_>>().join(", ")
}

fn lines(texts: impl Iterator<Item = String>) -> String {
    texts.map(|text| format!("{}\n", text.trim_end())).collect()
}
