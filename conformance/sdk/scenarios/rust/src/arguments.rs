//! The arguments of one operation. An argument that no code asks for is one that the SDK has no
//! option for.

use std::collections::BTreeSet;

use azure_data_cosmos::PartitionKey;
use azure_data_cosmos::models::{PartitionKeyValue, ThroughputProperties};
use azure_data_cosmos::options::{ContentResponseOnWrite, OperationOptions, Precondition};
use serde_json::{Map, Value};

use crate::Failure;

pub struct Arguments {
    given: Map<String, Value>,
    unused: BTreeSet<String>,
}

impl Arguments {
    pub fn new(given: Map<String, Value>) -> Self {
        let unused = given.keys().cloned().collect();
        Arguments { given, unused }
    }

    /// The arguments that nobody asked for.
    pub fn unused(&self) -> Option<String> {
        let names: Vec<&str> = self.unused.iter().map(String::as_str).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    pub fn has(&self, name: &str) -> bool {
        self.given.contains_key(name)
    }

    pub fn json(&mut self, name: &str) -> Option<Value> {
        self.unused.remove(name);
        self.given.get(name).cloned()
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        self.json(name).and_then(|value| value.as_str().map(str::to_owned))
    }

    pub fn number(&mut self, name: &str) -> Option<u64> {
        self.json(name).and_then(|value| value.as_u64())
    }

    pub fn flag(&mut self, name: &str) -> bool {
        self.json(name).is_some_and(|value| value == Value::Bool(true))
    }

    /// A text that must be there.
    pub fn named(&mut self, name: &str) -> Result<String, Failure> {
        self.text(name).ok_or_else(|| Failure::Raised(format!("the argument {name} is not there")))
    }

    pub fn partition_key(&mut self) -> Result<PartitionKey, Failure> {
        match self.json("partition_key") {
            Some(values) => key(&values),
            None => Err(Failure::Missing("no partition key".to_owned())),
        }
    }

    pub fn precondition(&mut self) -> Option<Precondition> {
        let (if_match, if_none_match) = (self.text("if_match"), self.text("if_none_match"));
        if_match.map(Precondition::if_match).or(if_none_match.map(Precondition::if_none_match))
    }

    /// The options of a write: it does as the client does unless told otherwise.
    pub fn write_options(&mut self) -> OperationOptions {
        let mut options = OperationOptions::default();
        options.content_response_on_write = self.flag("no_response").then_some(ContentResponseOnWrite::Disabled);
        options
    }

    /// What a new container, or an offer, shall have.
    pub fn throughput(&mut self, reach: &mut dyn FnMut(&'static str)) -> Option<ThroughputProperties> {
        let (manual, autoscale) = (self.number("throughput"), self.json("autoscale"));
        if let Some(manual) = manual {
            reach("ThroughputProperties::manual");
            return Some(ThroughputProperties::manual(manual));
        }
        let autoscale = autoscale?;
        reach("ThroughputProperties::autoscale");
        let increment = autoscale["increment"].as_u64().and_then(|percent| u32::try_from(percent).ok());
        Some(ThroughputProperties::autoscale(autoscale["max"].as_u64()?, increment))
    }
}

/// A partition key written as a JSON array; an empty one is the key of an item without a value.
pub fn key(values: &Value) -> Result<PartitionKey, Failure> {
    let value = |value: &Value| -> Result<PartitionKeyValue, Failure> {
        Ok(match value {
            Value::String(text) => PartitionKeyValue::from(text.clone()),
            Value::Bool(flag) => PartitionKeyValue::from(*flag),
            Value::Number(number) => PartitionKeyValue::try_from(number.as_f64().unwrap_or_default())?,
            _ => PartitionKeyValue::NULL,
        })
    };
    let mut values = values.as_array().into_iter().flatten().map(value).collect::<Result<Vec<_>, Failure>>()?;
    if values.is_empty() {
        values.push(PartitionKeyValue::UNDEFINED);
    }
    Ok(PartitionKey::try_from(values)?)
}
