//! The journal of write operations: one item for each form that was sent, with a time to live.
//!
//! ```text
//! {id, state: "pending", operation, started, ttl}
//! {id, state: "done", operation, started, outcome, models: [{model, ru, ms, …}], ttl}
//! ```

use super::operation::{Outcome, WriteOperation};
use crate::control::Control;
use crate::meter::{Charge, Measurement, RequestRecord};
use crate::models::Model;
use crate::{BlogError, Client, Meter, Query};
use serde_json::{Value, json};

/// Seconds for which the journal keeps an operation.
const TIME_TO_LIVE_S: u64 = 86_400;

/// The cost of a write operation in one model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCost {
    /// The model.
    pub model: Model,
    /// The sums over the requests.
    pub measurement: Measurement,
    /// The requests. Empty in a receipt that was read from the journal.
    pub records: Vec<RequestRecord>,
    /// The error because of which the operation is incomplete in this model; it will be repeated.
    pub failure: Option<BlogError>,
}

/// The answer to a write operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Receipt {
    /// The id of the operation in the journal.
    pub id: String,
    /// The operation.
    pub operation: WriteOperation,
    /// The effect in the home model.
    pub outcome: Outcome,
    /// The time at which the operation was applied.
    pub started: String,
    /// True if the operation had been applied by an earlier submission of the same form.
    pub is_repeated: bool,
    /// The cost in each model to which the operation was applied.
    pub models: Vec<ModelCost>,
}

impl Receipt {
    /// Returns the cost in a model.
    pub fn cost(&self, model: Model) -> Option<&ModelCost> {
        self.models.iter().find(|cost| cost.model == model)
    }

    /// Returns the first error because of which the operation is incomplete.
    pub(crate) fn failure(&self) -> Option<BlogError> {
        self.models.iter().find_map(|cost| cost.failure.clone())
    }
}

/// The state of an operation in the journal.
pub(crate) enum State {
    Pending(WriteOperation),
    Done(Receipt),
}

/// The result of the attempt to add an operation.
pub(crate) enum Begun {
    /// The operation was added.
    New,
    /// The journal has an operation under the same id.
    Before(Box<State>),
}

/// The container `writes`.
pub(crate) struct Journal {
    client: Client,
    container: String,
}

impl Journal {
    pub(crate) fn new(control: &Control) -> Self {
        Self {
            client: control.client.clone(),
            container: control.writes.clone(),
        }
    }

    /// Adds an operation as pending, or returns the one that has the same id.
    pub(crate) async fn begin(
        &self,
        own: &Meter,
        id: &str,
        operation: &WriteOperation,
        patience: &(dyn Fn(&Client) -> Client + Sync),
    ) -> Result<Begun, BlogError> {
        let client = patience(&self.client);
        let item = json!({
            "id": id,
            "state": "pending",
            "operation": operation.to_json(),
            "started": super::date_now(),
            "ttl": TIME_TO_LIVE_S,
        });
        let created = client.create(own, &self.container, id, &item).await;
        match created {
            Ok(()) => Ok(Begun::New),
            Err(BlogError::Refused { status: 409, .. }) => {
                let item = client.read(own, &self.container, id, id).await?;
                Ok(Begun::Before(Box::new(parse(&item)?)))
            }
            Err(e) => Err(e),
        }
    }

    /// Returns the state of an operation, `None` if the journal does not contain it.
    pub(crate) async fn read(&self, own: &Meter, id: &str) -> Result<Option<State>, BlogError> {
        match self.client.read(own, &self.container, id, id).await {
            Ok(item) => parse(&item).map(Some),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Stores the receipt of an operation.
    pub(crate) async fn finish(
        &self,
        own: &Meter,
        operation: &WriteOperation,
        receipt: &Receipt,
        patience: &(dyn Fn(&Client) -> Client + Sync),
    ) -> Result<(), BlogError> {
        let mut models = Vec::new();
        for cost in &receipt.models {
            models.push(json!({
                "model": cost.model.to_string(),
                "hundredthsOfRu": cost.measurement.ru.0,
                "ms": cost.measurement.ms,
                "partitions": cost.measurement.partitions,
                "requests": cost.measurement.requests,
                "throttled": cost.measurement.throttled,
            }));
        }
        let item = json!({
            "id": receipt.id,
            "state": "done",
            "operation": operation.to_json(),
            "outcome": receipt.outcome.name(),
            "models": models,
            "started": receipt.started,
            "ttl": TIME_TO_LIVE_S,
        });
        patience(&self.client)
            .upsert(own, &self.container, &receipt.id, &item, None)
            .await
    }

    /// Returns the pending operations, the oldest first.
    pub(crate) async fn pending(
        &self,
        own: &Meter,
    ) -> Result<Vec<(String, WriteOperation)>, BlogError> {
        let query = Query::new(
            "SELECT c.id, c.operation FROM c WHERE c.state = 'pending' ORDER BY c.started",
        );
        let mut pending = Vec::new();
        for item in self.client.query_all(own, &self.container, &query).await? {
            let id = item["id"].as_str().unwrap_or_default().to_owned();
            if let Some(operation) = WriteOperation::from_json(&item["operation"]) {
                pending.push((id, operation));
            }
        }
        Ok(pending)
    }
}

/// Parses an item of the journal.
fn parse(item: &Value) -> Result<State, BlogError> {
    let invalid = || BlogError::unexpected("the journal of writes", item.to_string());
    let operation = WriteOperation::from_json(&item["operation"]).ok_or_else(invalid)?;
    if item["state"] == "pending" {
        return Ok(State::Pending(operation));
    }
    let outcome = item["outcome"].as_str().ok_or_else(invalid)?;
    let mut models = Vec::new();
    for stored in item["models"].as_array().into_iter().flatten() {
        let count = |name: &str| stored[name].as_u64().unwrap_or(0) as usize;
        let model = stored["model"].as_str().ok_or_else(invalid)?;
        models.push(ModelCost {
            model: model.parse()?,
            measurement: Measurement {
                ru: Charge(stored["hundredthsOfRu"].as_u64().ok_or_else(invalid)?),
                ms: stored["ms"].as_f64().unwrap_or(0.0),
                partitions: count("partitions"),
                requests: count("requests"),
                throttled: count("throttled"),
            },
            records: Vec::new(),
            failure: None,
        });
    }
    Ok(State::Done(Receipt {
        id: item["id"].as_str().ok_or_else(invalid)?.to_owned(),
        operation,
        outcome: Outcome::from_name(outcome).ok_or_else(invalid)?,
        started: item["started"].as_str().unwrap_or_default().to_owned(),
        is_repeated: true,
        models,
    }))
}
