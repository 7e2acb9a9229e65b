//! Single items of a session, import and export.

use super::command::{Action, key_text};
use super::fault::ShellError;
use super::session::{Session, note, say};
use crate::query::{Cursor, QueryOptions, QueryOutcome};
use crate::transfer::{
    CsvRules, ExportOptions, ImportOptions, Mode, TransferError, export, import, on_stderr,
};
use orrery_client::{Answer, ClientError, PartitionKey, QueryText};
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_model::partition_key::Definition;
use serde_json::Value;
use serde_json::value::RawValue;

/// Items with the same id that a message names.
const NAMED_MAX: usize = 5;

impl Session {
    /// Prints an item. Without a partition key, the item with this id is searched in all
    /// partitions.
    pub(super) async fn get(&mut self, id: &str, key: &[&str]) -> Result<(), ShellError> {
        let container = self.container_link()?;
        let key = self.key_of(id, key).await?;
        let answer = self.client.read_item(&container, &key, id).await?;
        let item = String::from_utf8_lossy(&answer.body).into_owned();
        say(&self.options.form.item(&item))?;
        if let Ok(row) = RawValue::from_string(item) {
            self.names.add_rows(&[row]);
        }
        self.tell_answer("read", &answer);
        Ok(())
    }

    /// Creates or replaces an item by its JSON text.
    pub(super) async fn write(&mut self, action: Action, text: &str) -> Result<(), ShellError> {
        let container = self.container_link()?;
        let json = parse(text.as_bytes()).map_err(|e| format!("the item is no JSON: {e}"))?;
        let Json::Object(object) = &json else {
            return Err("the item is no JSON object".to_owned().into());
        };
        let definition = self.definition(&container).await?;
        let key = key_in(&definition, &json)?;
        let body = text.to_owned();
        let answer = match action {
            Action::Create => self.client.create_item(&container, &key, body).await?,
            Action::Replace => {
                let Some(Json::String(id)) = object.get("id") else {
                    return Err("the item has no id".to_owned().into());
                };
                let id = id.clone();
                self.client
                    .replace_item(&container, &key, &id, body, None)
                    .await?
            }
            _ => self.client.upsert_item(&container, &key, body).await?,
        };
        let done = if answer.status == 201 {
            "created"
        } else {
            "replaced"
        };
        self.tell_answer(done, &answer);
        Ok(())
    }

    /// Changes an item by the operations of a patch.
    pub(super) async fn patch(
        &mut self,
        id: &str,
        key: &[&str],
        operations: &str,
    ) -> Result<(), ShellError> {
        let container = self.container_link()?;
        let key = self.key_of(id, key).await?;
        let body = operations.to_owned();
        let answer = self
            .client
            .patch_item(&container, &key, id, body, None)
            .await?;
        self.tell_answer("patched", &answer);
        Ok(())
    }

    /// Deletes an item, with consent.
    pub(super) async fn delete(&mut self, id: &str, key: &[&str]) -> Result<(), ShellError> {
        let container = self.container_link()?;
        let key = self.key_of(id, key).await?;
        self.consent(&format!(
            "delete item {id} with partition key {}",
            key.as_str()
        ))?;
        let answer = self.client.delete_item(&container, &key, id, None).await?;
        self.tell_answer("deleted", &answer);
        Ok(())
    }

    /// Returns the partition key that arguments state, or that of the item with this id.
    async fn key_of(&mut self, id: &str, key: &[&str]) -> Result<PartitionKey, ShellError> {
        if !key.is_empty() {
            return Ok(PartitionKey::from_json(&key_text(key)));
        }

        // A container by id needs no search.
        let container = self.container_link()?;
        let definition = self.definition(&container).await?;
        let is_id = definition.paths().len() == 1 && definition.paths()[0].join("/") == "id";
        if is_id {
            return Ok(PartitionKey::text(id));
        }

        // An id is unique in its logical partition only, so several items may have it.
        let mut query = QueryText::new("SELECT * FROM c WHERE c.id = @id");
        query.parameters.push(("@id".to_owned(), Value::from(id)));
        let mut cursor = Cursor::new(QueryOptions {
            container,
            query,
            partition_key: None,
            max_rows: Some(NAMED_MAX),
            max_charge: None,
            explains: false,
            counts_partitions: false,
        });
        let mut found = QueryOutcome::default();
        let fetched = cursor.fetch(&self.client, &mut found).await;
        self.totals.charge += found.charge;
        fetched.map_err(|error| error.to_string())?;
        let mut keys = Vec::new();
        for row in &found.rows {
            let json = parse(row.get().as_bytes()).map_err(|e| e.to_string())?;
            keys.push(key_in(&definition, &json)?);
        }
        match &keys[..] {
            [] => Err(format!("no item has the id '{id}'").into()),
            [one] => Ok(one.clone()),
            several => {
                let mut keys: Vec<&str> = several.iter().map(PartitionKey::as_str).collect();
                keys.sort_unstable();
                Err(format!(
                    "several items have the id '{id}'; name the partition key too: {}",
                    keys.join(" or ")
                )
                .into())
            }
        }
    }

    /// Returns the partition key definition of a container, which never changes.
    async fn definition(&mut self, container: &str) -> Result<Definition, ShellError> {
        if let Some(known) = self.definitions.get(container) {
            return Ok(known.clone());
        }
        let answer = self.client.read_container(container, false).await?;
        let unusable = |reason: String| ClientError::Unexpected {
            operation: answer.operation.clone(),
            reason,
        };
        let json = parse(&answer.body).map_err(|e| unusable(e.to_string()))?;
        let definition = match &json {
            Json::Object(object) => object.get("partitionKey").map(Definition::from_json),
            _ => None,
        };
        let definition = definition
            .ok_or_else(|| unusable("a container without a partition key".to_owned()))?
            .map_err(|e| unusable(e.to_string()))?;
        let kept = definition.clone();
        self.definitions.insert(container.to_owned(), kept);
        Ok(definition)
    }

    /// Imports a file into the container.
    pub(super) async fn import(
        &mut self,
        file: &str,
        mode: Option<&str>,
    ) -> Result<(), ShellError> {
        let (database, container) = self.both()?;
        // Standard input has the statements of the session.
        if file == "-" {
            return Err("name a file: `orrery import -` reads standard input"
                .to_owned()
                .into());
        }
        let mode = match mode {
            None | Some("create") => Mode::Create,
            Some("upsert") => Mode::Upsert,
            Some("skip-existing") => Mode::SkipExisting,
            Some(other) => {
                return Err(
                    format!("'{other}' is no mode: create, upsert and skip-existing are").into(),
                );
            }
        };
        let options = ImportOptions {
            files: vec![file.to_owned()],
            from: None,
            database,
            container,
            mode,
            create: None,
            format: None,
            csv: CsvRules::default(),
            allows_missing_key: false,
            dead_letter: None,
            checkpoint: None,
            is_dry_run: false,
            rate: None,
            concurrency: 32,
            batch: 100,
        };
        let progress = on_stderr();
        let summary = import(&self.client, &options, &*progress).await?;
        self.totals.charge += summary.charge;
        self.totals.elapsed += summary.elapsed;
        let counts = summary.counts;
        note(&format!(
            "{} records: {} created, {} replaced, {} kept as they were, {:.2} RU",
            counts.records, counts.created, counts.replaced, counts.existing, summary.charge
        ));
        Ok(())
    }

    /// Exports the items of the container to a new file.
    pub(super) async fn export(&mut self, file: &str) -> Result<(), ShellError> {
        let (database, container) = self.both()?;
        let options = ExportOptions {
            database,
            container,
            output: file.into(),
            format: None,
            query: None,
            system_properties: false,
            parallel: 8,
            overwrite: false,
        };
        let progress = on_stderr();
        let summary = match export(&self.client, &options, &*progress).await {
            // The shell has no option --overwrite.
            Err(TransferError::Usage(_)) if std::path::Path::new(file).exists() => {
                return Err(format!("{file} exists: name another file").into());
            }
            done => done?,
        };
        self.totals.charge += summary.charge;
        self.totals.elapsed += summary.elapsed;
        note(&format!(
            "{} items exported, {:.2} RU",
            summary.rows, summary.charge
        ));
        Ok(())
    }

    /// Tells the result of a request for one item and its costs.
    fn tell_answer(&mut self, done: &str, answer: &Answer) {
        self.totals.charge += answer.charge();
        self.totals.elapsed += answer.elapsed;
        if self.options.tells_costs {
            note(&format!(
                "{done}, {:.2} RU, {:.1} ms",
                answer.charge(),
                answer.elapsed.as_secs_f64() * 1000.0
            ));
        }
    }
}

/// Returns the partition key of an item.
fn key_in(definition: &Definition, item: &Json) -> Result<PartitionKey, String> {
    let Json::Object(object) = item else {
        return Err("the item is no JSON object".to_owned());
    };
    let key = definition.extract(object).map_err(|e| e.to_string())?;
    Ok(PartitionKey::from_json(&key.to_json().to_text()))
}
