//! The driver for the Rust SDK: carries out the operations of the table with `azure_data_cosmos`.
//!
//! It reads a line of JSON and writes one; `conformance/sdk/scenarios/driver.py` has the agreement.
//! Every public method of the SDK's clients is called under its name ([`Driver::reach`]), so that
//! the run can say which no scenario leads to; `methods.txt` lists all there are.

mod answer;
mod arguments;
mod feeds;
mod items;
mod resources;

use std::collections::BTreeSet;
use std::io::{BufRead, Write};

use azure_data_cosmos::options::{ContentResponseOnWrite, OperationOptions};
use azure_data_cosmos::{AccountReference, CosmosClient, CosmosClientBuilder, CosmosError, RoutingStrategy};
use serde_json::{Value, json};

use crate::answer::{Answer, refusal};
use crate::arguments::Arguments;

/// Every public method of the SDK that asks the service for something, or says what to ask.
const METHODS: &str = include_str!("../methods.txt");

/// Why an operation has no answer.
pub enum Failure {
    /// The SDK has no public method or option for it.
    Missing(String),
    /// The SDK, or the server through it, refused.
    Refused(CosmosError),
    /// Something else went wrong.
    Raised(String),
}

impl From<CosmosError> for Failure {
    fn from(error: CosmosError) -> Self {
        Failure::Refused(error)
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Failure::Raised(error.to_string())
    }
}

pub type Outcome = Result<Answer, Failure>;

/// What a client is made of.
#[derive(Clone)]
struct Wanted {
    key: String,
    /// Whether writes bring the item back.
    response: ContentResponseOnWrite,
}

pub struct Driver {
    endpoint: String,
    key: String,
    /// The client of the server's key; made at its first use, since that asks the server.
    usual: Option<CosmosClient>,
    /// What `connect` asked for, until the scenario ends, and the client made of it.
    wanted: Option<Wanted>,
    other: Option<CosmosClient>,
    reached: BTreeSet<&'static str>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (endpoint, key) = (variable("ORRERY_ENDPOINT"), variable("ORRERY_KEY"));
    let mut driver = Driver { endpoint, key, usual: None, wanted: None, other: None, reached: BTreeSet::new() };
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let said = driver.said(&line).await;
        if writeln!(out, "{said}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}

impl Driver {
    /// The answer to one line.
    async fn said(&mut self, line: &str) -> Value {
        let Ok(request) = serde_json::from_str::<Value>(line) else { return json!({"raised": "no JSON"}) };
        let asked = request["do"].as_str().unwrap_or_default().to_owned();
        match asked.as_str() {
            "reset" => {
                (self.wanted, self.other) = (None, None);
                return json!({});
            }
            "methods" => return json!({"methods": METHODS.lines().collect::<Vec<_>>(), "reached": self.reached}),
            _ => {}
        }
        let mut arguments = Arguments::new(request["with"].as_object().cloned().unwrap_or_default());
        let outcome = self.carry_out(&asked, &mut arguments).await;
        match (outcome, arguments.unused()) {
            (Err(Failure::Missing(what)), _) if what == asked => json!({"missing": asked}),
            (Err(Failure::Missing(what)), _) => json!({"missing": format!("{asked} with {what}")}),
            // What is refused may have been before everything was looked at.
            (Err(Failure::Refused(error)), _) => refusal(&error),
            (_, Some(unused)) => json!({"missing": format!("{asked} with {unused}")}),
            (Ok(answer), None) => answer.json(),
            (Err(Failure::Raised(why)), None) => json!({"raised": why}),
        }
    }

    async fn carry_out(&mut self, asked: &str, a: &mut Arguments) -> Outcome {
        match asked {
            "connect" => self.connect(a).await,
            "create_database" => self.create_database(a).await,
            "read_database" => self.read_database(a).await,
            "delete_database" => self.delete_database(a).await,
            "query_databases" => self.query_databases(a).await,
            "create_container" => self.create_container(a).await,
            "read_container" => self.read_container(a).await,
            "replace_container" => self.replace_container(a).await,
            "delete_container" => self.delete_container(a).await,
            "query_containers" => self.query_containers(a).await,
            "read_database_throughput" => self.read_database_throughput(a).await,
            "replace_database_throughput" => self.replace_database_throughput(a).await,
            "read_container_throughput" => self.read_container_throughput(a).await,
            "replace_container_throughput" => self.replace_container_throughput(a).await,
            "create_item" => self.create_item(a).await,
            "read_item" => self.read_item(a).await,
            "upsert_item" => self.upsert_item(a).await,
            "replace_item" => self.replace_item(a).await,
            "delete_item" => self.delete_item(a).await,
            "patch_item" => self.patch_item(a).await,
            "batch" => self.batch(a).await,
            "query_items" => self.query_items(a).await,
            "read_feed_ranges" => self.read_feed_ranges(a).await,
            "feed_range_of_partition_key" => self.feed_range_of_partition_key(a).await,
            "change_feed" => self.change_feed(a).await,
            _ => Err(Failure::Missing(asked.to_owned())),
        }
    }

    /// Notes that this method was called.
    pub fn reach(&mut self, method: &'static str) {
        self.reached.insert(method);
    }

    async fn connect(&mut self, a: &mut Arguments) -> Outcome {
        let key = a.text("key").unwrap_or_else(|| self.key.clone());
        let response =
            if a.flag("no_response") { ContentResponseOnWrite::Disabled } else { ContentResponseOnWrite::Enabled };
        (self.wanted, self.other) = (Some(Wanted { key, response }), None);
        Ok(Answer::status(200))
    }

    async fn made(&mut self, wanted: Wanted) -> Result<CosmosClient, Failure> {
        for method in
            ["CosmosClient::builder", "CosmosClientBuilder::build", "AccountReference::with_authentication_key"]
        {
            self.reach(method);
        }
        self.reach("CosmosClientBuilder::with_default_operation_options");
        let account = AccountReference::with_authentication_key(self.endpoint.parse()?, wanted.key);
        let mut operation = OperationOptions::default();
        operation.content_response_on_write = Some(wanted.response);
        let builder: CosmosClientBuilder = CosmosClient::builder();
        let builder = builder.with_default_operation_options(operation);
        Ok(builder.build(account, RoutingStrategy::PreferredRegions(Vec::new())).await?)
    }

    /// The client in use.
    pub async fn client(&mut self) -> Result<CosmosClient, Failure> {
        let in_use = if self.wanted.is_some() { &self.other } else { &self.usual };
        if let Some(made) = in_use {
            return Ok(made.clone());
        }
        let usual = Wanted { key: self.key.clone(), response: ContentResponseOnWrite::Enabled };
        let made = self.made(self.wanted.clone().unwrap_or(usual)).await?;
        let place = if self.wanted.is_some() { &mut self.other } else { &mut self.usual };
        *place = Some(made.clone());
        Ok(made)
    }
}
