//! Items, alone and in batches.

use azure_data_cosmos::TransactionalBatch;
use azure_data_cosmos::models::{CosmosNumber, PatchInstructions, PatchOperation};
use azure_data_cosmos::options::{
    BatchDeleteOptions, BatchOptions, BatchReadOptions, BatchReplaceOptions, BatchUpsertOptions, ItemReadOptions,
    ItemWriteOptions, OperationOptions, PatchItemOptions, Precondition, ReadConsistencyStrategy,
};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::arguments::Arguments;
use crate::{Driver, Failure, Outcome};

fn write_options(a: &mut Arguments) -> ItemWriteOptions {
    let mut options = ItemWriteOptions::default().with_operation_options(a.write_options());
    if let Some(precondition) = a.precondition() {
        options = options.with_precondition(precondition);
    }
    match a.text("session_token") {
        Some(token) => options.with_session_token(token),
        None => options,
    }
}

/// The id that the SDK wants beside an item.
fn id_of(item: &Value) -> String {
    item["id"].as_str().unwrap_or_default().to_owned()
}

impl Driver {
    pub async fn create_item(&mut self, a: &mut Arguments) -> Outcome {
        let (container, item) = (self.container(a).await?, a.json("item").unwrap_or_default());
        self.reach("ContainerClient::create_item");
        let (key, options) = (a.partition_key()?, write_options(a));
        Answer::item(container.create_item(key, &id_of(&item), item, Some(options)).await?)
    }

    pub async fn read_item(&mut self, a: &mut Arguments) -> Outcome {
        let (container, key, id) = (self.container(a).await?, a.partition_key()?, a.named("id")?);
        let mut options = ItemReadOptions::default();
        if let Some(precondition) = a.precondition() {
            options = options.with_precondition(precondition);
        }
        if let Some(token) = a.text("session_token") {
            options = options.with_session_token(token);
        }
        if let Some(level) = a.text("consistency") {
            let missing = |_| Failure::Missing(format!("the consistency {level}"));
            let mut operation = OperationOptions::default();
            operation.read_consistency_strategy = Some(level.parse::<ReadConsistencyStrategy>().map_err(missing)?);
            options = options.with_operation_options(operation);
        }
        self.reach("ContainerClient::read_item");
        Answer::item(container.read_item(key, &id, Some(options)).await?)
    }

    pub async fn upsert_item(&mut self, a: &mut Arguments) -> Outcome {
        let (container, item) = (self.container(a).await?, a.json("item").unwrap_or_default());
        self.reach("ContainerClient::upsert_item");
        let (key, options) = (a.partition_key()?, write_options(a));
        Answer::item(container.upsert_item(key, &id_of(&item), item, Some(options)).await?)
    }

    pub async fn replace_item(&mut self, a: &mut Arguments) -> Outcome {
        let (container, item) = (self.container(a).await?, a.json("item").unwrap_or_default());
        self.reach("ContainerClient::replace_item");
        let (key, id, options) = (a.partition_key()?, a.named("id")?, write_options(a));
        Answer::item(container.replace_item(key, &id, item, Some(options)).await?)
    }

    pub async fn delete_item(&mut self, a: &mut Arguments) -> Outcome {
        let (container, key, id) = (self.container(a).await?, a.partition_key()?, a.named("id")?);
        self.reach("ContainerClient::delete_item");
        Answer::item(container.delete_item(key, &id, Some(write_options(a))).await?)
    }

    pub async fn patch_item(&mut self, a: &mut Arguments) -> Outcome {
        let (container, key, id) = (self.container(a).await?, a.partition_key()?, a.named("id")?);
        let mut options = PatchItemOptions::default().with_operation_options(a.write_options());
        if let Some(precondition) = a.precondition() {
            options = options.with_precondition(precondition);
        }
        let patch = self.patch(&a.json("operations").unwrap_or_default())?;
        self.reach("ContainerClient::patch_item");
        Answer::item(container.patch_item(key, &id, patch, Some(options)).await?)
    }

    /// The operations of a patch: `{op, path, value}` each, as on the wire.
    fn patch(&mut self, steps: &Value) -> Result<PatchInstructions, Failure> {
        self.reach("PatchInstructions::new");
        self.reach("PatchInstructions::with_operation");
        let mut patch = PatchInstructions::new();
        for step in steps.as_array().into_iter().flatten() {
            let path = step["path"].as_str().unwrap_or_default().to_owned();
            let value = step["value"].clone();
            let (method, operation) = match step["op"].as_str().unwrap_or_default() {
                "add" => ("PatchOperation::add", PatchOperation::add(path, value)),
                "set" => ("PatchOperation::set", PatchOperation::set(path, value)),
                "replace" => ("PatchOperation::replace", PatchOperation::replace(path, value)),
                "remove" => ("PatchOperation::remove", PatchOperation::remove(path)),
                "incr" => ("PatchOperation::increment", PatchOperation::increment(path, number(&value))),
                "move" => {
                    let from = step["from"].as_str().unwrap_or_default().to_owned();
                    ("PatchOperation::move_value", PatchOperation::move_value(from, path))
                }
                other => return Err(Failure::Missing(format!("the patch operation {other}"))),
            };
            self.reach(method);
            patch = patch.with_operation(operation);
        }
        Ok(patch)
    }

    pub async fn batch(&mut self, a: &mut Arguments) -> Outcome {
        let (container, key) = (self.container(a).await?, a.partition_key()?);
        self.reach("TransactionalBatch::new");
        let mut batch = TransactionalBatch::new(key);
        for step in a.json("operations").unwrap_or_default().as_array().into_iter().flatten() {
            batch = self.add(batch, step)?;
        }
        let options = BatchOptions::default().with_operation_options(a.write_options());
        self.reach("ContainerClient::execute_transactional_batch");
        let done = container.execute_transactional_batch(batch, Some(options)).await?;
        let answer = Answer::of(done.status(), done.headers());
        let mut results = Vec::new();
        for result in done.into_model()?.results() {
            let charge = result.request_charge();
            let (status, etag) = (result.status_code(), result.etag());
            let mut one = json!({"status": status, "etag": etag, "charge": charge});
            if let Some(body) = result.into_model::<Value>()? {
                one["body"] = body;
            }
            results.push(one);
        }
        Ok(answer.with("results", Value::Array(results)))
    }

    fn add(&mut self, batch: TransactionalBatch, step: &Value) -> Result<TransactionalBatch, Failure> {
        let (id, item) = (step["id"].as_str().unwrap_or_default().to_owned(), &step["item"]);
        let etag = step["if_match"].as_str().map(|etag| Precondition::if_match(etag.to_owned()));
        Ok(match step["op"].as_str().unwrap_or_default() {
            "create" => {
                self.reach("TransactionalBatch::create_item");
                batch.create_item(item)?
            }
            "upsert" => {
                self.reach("TransactionalBatch::upsert_item");
                batch.upsert_item(item, etag.map(|etag| BatchUpsertOptions::default().with_precondition(etag)))?
            }
            "replace" => {
                self.reach("TransactionalBatch::replace_item");
                batch.replace_item(id, item, etag.map(|etag| BatchReplaceOptions::default().with_precondition(etag)))?
            }
            "read" => {
                self.reach("TransactionalBatch::read_item");
                batch.read_item(id, etag.map(|etag| BatchReadOptions::default().with_precondition(etag)))
            }
            "delete" => {
                self.reach("TransactionalBatch::delete_item");
                batch.delete_item(id, etag.map(|etag| BatchDeleteOptions::default().with_precondition(etag)))
            }
            other => return Err(Failure::Missing(format!("the batch operation {other}"))),
        })
    }
}

fn number(value: &Value) -> CosmosNumber {
    value.as_i64().map_or_else(|| CosmosNumber::from(value.as_f64().unwrap_or_default()), CosmosNumber::from)
}
