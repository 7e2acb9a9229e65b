//! The account as a session sees it: requests within the view, and their request units within the
//! cap.
//!
//! The cap is checked before each request, so that the last request may pass it. A session with a
//! cap answers one call at a time, because a charge is known when its answer arrives.

use super::Options;
use super::wire::Members;
use crate::query::QueryError;
use orrery_client::{Answer, Client, ClientError, PartitionKey, container_link, database_link};
use orrery_client::{Request, Throughput};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// The failure of a tool, in words for the assistant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolError(pub(super) String);

impl ToolError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<QueryError> for ToolError {
    fn from(error: QueryError) -> Self {
        Self(error.to_string())
    }
}

/// The account of a session.
pub(super) struct Account {
    client: Client,
    pub(super) options: Options,
    /// Request units of all answers so far.
    spent: Mutex<f64>,
    /// The turn of the calls of a session with a cap.
    turn: tokio::sync::Mutex<()>,
}

impl Account {
    pub(super) fn new(client: Client, options: Options) -> Self {
        Self {
            client,
            options,
            spent: Mutex::new(0.0),
            turn: tokio::sync::Mutex::new(()),
        }
    }

    /// Waits for the turn of a call. Without a cap every call has its turn at once.
    pub(super) async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.options.max_charge?;
        Some(self.turn.lock().await)
    }

    /// Returns the endpoint.
    pub(super) fn endpoint(&self) -> &str {
        self.client.endpoint()
    }

    /// Returns the client, if the cap is not spent. The caller passes the answer to
    /// [`Account::count`].
    ///
    /// # Errors
    /// The cap is spent.
    pub(super) fn client(&self) -> Result<&Client, ToolError> {
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        match self.options.max_charge {
            Some(max) if spent >= max => Err(ToolError(format!(
                "max-request-charge: the {max} request units of this session are spent ({spent:.2} \
                 RU used); the operator starts the server again, or with a higher \
                 --max-request-charge"
            ))),
            _ => Ok(&self.client),
        }
    }

    /// Adds the charge of an answer to those of the session. A refused request has a charge too.
    pub(super) fn count(&self, answer: Result<Answer, ClientError>) -> Result<Answer, ToolError> {
        self.add(match &answer {
            Ok(answer) => answer.charge(),
            Err(error) => error.refusal().map_or(0.0, |refusal| refusal.charge),
        });
        answer.map_err(|error| ToolError(error.to_string()))
    }

    pub(super) fn add(&self, charge: f64) {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner) += charge;
    }

    /// Sends a request.
    pub(super) async fn send(&self, request: &Request) -> Result<Answer, ToolError> {
        let answer = self.client()?.request(request).await;
        self.count(answer)
    }

    /// Reads all pages of a feed. Returns the resources and the charge.
    pub(super) async fn feed(
        &self,
        path: &str,
        property: &str,
    ) -> Result<(Vec<Value>, f64), ToolError> {
        let (mut resources, mut charge) = (Vec::new(), 0.0);
        let mut continuation: Option<String> = None;
        loop {
            let mut request = Request::new(http::Method::GET, path);
            request = request.header("x-ms-max-item-count", "-1");
            if let Some(token) = continuation {
                request = request.header("x-ms-continuation", token);
            }
            let answer = self.send(&request).await?;
            charge += answer.charge();
            match json_of::<Value>(&answer)?
                .get_mut(property)
                .map(Value::take)
            {
                Some(Value::Array(page)) => resources.extend(page),
                _ => {
                    return Err(ToolError(format!(
                        "GET /{path}: an answer without {property}"
                    )));
                }
            }
            continuation = answer.continuation().map(str::to_owned);
            if continuation.is_none() {
                return Ok((resources, charge));
            }
        }
    }

    /// Returns the throughput of the resource with this id (`_rid`), in the words of the tools.
    pub(super) async fn throughput(&self, rid: &str) -> Result<Option<Value>, ToolError> {
        let query = json!({"query": "SELECT * FROM root r WHERE r.offerResourceId = @rid",
            "parameters": [{"name": "@rid", "value": rid}]});
        let request = Request::new(http::Method::POST, "offers")
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .body(query.to_string())
            .repeatable();
        let found: Value = json_of(&self.send(&request).await?)?;
        let content = &found["Offers"][0]["content"];
        let autoscale = &content["offerAutopilotSettings"]["maxThroughput"];
        Ok(
            match (autoscale.as_u64(), content["offerThroughput"].as_u64()) {
                (Some(most), _) => Some(json!({"autoscaleMaxRuPerSecond": most})),
                (None, Some(manual)) => Some(json!({"ruPerSecond": manual})),
                (None, None) => None,
            },
        )
    }

    /// Returns the database that the arguments name, or the only one of the view.
    ///
    /// # Errors
    /// The argument is missing, is no name, or is outside of the view.
    pub(super) fn database(&self, arguments: &Members) -> Result<String, ToolError> {
        within(arguments, "database", self.options.database.as_deref())
    }

    /// Returns the link of the container that the arguments name, or of the only one of the view.
    pub(super) fn container(&self, arguments: &Members) -> Result<String, ToolError> {
        let database = self.database(arguments)?;
        let container = within(arguments, "container", self.options.container.as_deref())?;
        Ok(container_link(&database, &container))
    }

    /// Returns the databases of the view, and the charge.
    pub(super) async fn databases(&self) -> Result<(Vec<String>, f64), ToolError> {
        if let Some(database) = &self.options.database {
            return Ok((vec![database.clone()], 0.0));
        }
        let (found, charge) = self.feed("dbs", "Databases").await?;
        let name = |database: &Value| database["id"].as_str().unwrap_or_default().to_owned();
        Ok((found.iter().map(name).collect(), charge))
    }

    /// Returns the definitions of the containers of the view in a database, and the charge.
    pub(super) async fn containers(&self, database: &str) -> Result<(Vec<Value>, f64), ToolError> {
        let path = format!("{}/colls", database_link(database));
        let (mut found, charge) = self.feed(&path, "DocumentCollections").await?;
        if let Some(only) = &self.options.container {
            found.retain(|container| container["id"].as_str() == Some(only));
        }
        Ok((found, charge))
    }
}

/// Returns an argument with a name, which must be `only` if the view has one.
fn within(arguments: &Members, name: &str, only: Option<&str>) -> Result<String, ToolError> {
    let given = text(arguments, name)?;
    match (given, only) {
        (Some(given), Some(only)) if given != only => Err(ToolError(format!(
            "the {name} '{given}' is outside of this session, which is limited to '{only}'"
        ))),
        (None, None) => Err(ToolError(format!("the argument {name} is missing"))),
        (None, Some(only)) => Ok(only.to_owned()),
        // A slash would lead to another resource than the one that the view was checked for.
        (Some(given), _) if given.is_empty() || given.contains(['/', '\\', '?', '#']) => {
            Err(ToolError(format!("'{given}' is no name of a {name}")))
        }
        (Some(given), _) => Ok(given),
    }
}

/// Returns the body of an answer.
pub(super) fn json_of<T: DeserializeOwned>(answer: &Answer) -> Result<T, ToolError> {
    answer.json().map_err(|error| ToolError(error.to_string()))
}

/// Returns an argument; `None` if it is missing or null.
pub(super) fn raw<'a>(arguments: &'a Members, name: &str) -> Option<&'a RawValue> {
    let value = arguments.get(name)?;
    (value.get() != "null").then_some(value)
}

/// Returns an argument in its form.
pub(super) fn typed<T: DeserializeOwned>(
    arguments: &Members,
    name: &str,
    form: &str,
) -> Result<Option<T>, ToolError> {
    let Some(value) = raw(arguments, name) else {
        return Ok(None);
    };
    match serde_json::from_str(value.get()) {
        Ok(value) => Ok(Some(value)),
        Err(_) => Err(ToolError(format!("the argument {name} is not {form}"))),
    }
}

pub(super) fn text(arguments: &Members, name: &str) -> Result<Option<String>, ToolError> {
    typed(arguments, name, "a string")
}

pub(super) fn needed_text(arguments: &Members, name: &str) -> Result<String, ToolError> {
    let missing = || ToolError(format!("the argument {name} is missing"));
    text(arguments, name)?.ok_or_else(missing)
}

/// Returns the id of an item, which may not lead to another resource.
pub(super) fn item_id(arguments: &Members) -> Result<String, ToolError> {
    let id = needed_text(arguments, "id")?;
    if id.is_empty() || id.contains(['/', '\\', '?', '#']) {
        return Err(ToolError(format!("'{id}' is no id of an item")));
    }
    Ok(id)
}

/// Returns the argument `partition_key`: a value, or an array for several paths.
pub(super) fn partition_key(arguments: &Members) -> Result<Option<PartitionKey>, ToolError> {
    // A null is a value of a partition key, and not a missing argument.
    let Some(value) = arguments.get("partition_key") else {
        return Ok(None);
    };
    let text = value.get();
    if text.starts_with('{') {
        let reason = "the argument partition_key is a string, number, boolean, null or an array";
        return Err(ToolError(reason.into()));
    }
    Ok(Some(match text.starts_with('[') {
        true => PartitionKey::from_json(text),
        false => PartitionKey::from_json(&format!("[{text}]")),
    }))
}

pub(super) fn needed_key(arguments: &Members) -> Result<PartitionKey, ToolError> {
    let missing = || ToolError("the argument partition_key is missing".into());
    partition_key(arguments)?.ok_or_else(missing)
}

/// Returns the throughput that the arguments ask for.
pub(super) fn wanted_throughput(arguments: &Members) -> Result<Option<Throughput>, ToolError> {
    let form = "a number of RU/s";
    let manual = typed(arguments, "throughput", form)?;
    let autoscale = typed(arguments, "autoscale_max_throughput", form)?;
    match (manual, autoscale) {
        (Some(_), Some(_)) => Err(ToolError(
            "throughput and autoscale_max_throughput exclude each other".into(),
        )),
        (Some(ru), None) => Ok(Some(Throughput::Manual(ru))),
        (None, Some(ru)) => Ok(Some(Throughput::Autoscale(ru))),
        (None, None) => Ok(None),
    }
}
