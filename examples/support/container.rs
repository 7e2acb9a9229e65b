//! Databases and containers: items, queries, stored procedures, throughput, the change feed.
//!
//! Calls that a program expects to succeed return an error for any other status.
//! [`Container::docs`] begins a request for items whose status is the subject of the example.

use crate::Result;
use crate::client::{Client, Method, Request, Response, request};
use orrery_client::{PartitionKey, ScriptKind, Throughput, database_link};
use serde_json::{Value, json};

/// A database.
#[derive(Clone)]
pub struct Database {
    /// The client of the database.
    pub client: Client,
    /// The link of the database: `dbs/…`.
    pub link: String,
}

impl Database {
    /// Creates a database; an existing one is an error, so that no data are overwritten.
    pub async fn create(client: &Client, name: &str) -> Result<Database> {
        match client.create_database(name, None).await {
            Ok(_) => Ok(Database {
                client: client.clone(),
                link: database_link(name),
            }),
            Err(e) if e.is_conflict() => Err(format!(
                "the database '{name}' exists already; delete it, or choose another name with \
                 --database"
            )
            .into()),
            Err(e) => Err(e.into()),
        }
    }

    /// Deletes the database.
    pub async fn delete(&self) -> Result<()> {
        Ok(self.client.delete(&self.link).await.map(drop)?)
    }

    /// Creates a container with a partition key and a throughput in RU/s.
    pub async fn create_container(
        &self,
        name: &str,
        key_path: &str,
        throughput: u32,
    ) -> Result<Container> {
        let definition = json!({
            "id": name,
            "partitionKey": {"paths": [key_path], "kind": "Hash", "version": 2},
        });
        let throughput = Some(Throughput::Manual(throughput));
        self.client
            .create_container(&self.link, &definition, throughput)
            .await?;
        Ok(self.container(name))
    }

    /// Begins the creation of a container, without its body.
    pub fn creation(&self, throughput: u32) -> Request {
        let path = format!("{}/colls", self.link);
        request(&self.client, Method::POST, path)
            .header("x-ms-offer-throughput", &throughput.to_string())
    }

    /// Returns a container that exists.
    pub fn container(&self, name: &str) -> Container {
        Container {
            client: self.client.clone(),
            link: format!("{}/colls/{name}", self.link),
        }
    }
}

/// A container. Clones are the same container.
#[derive(Clone)]
pub struct Container {
    /// The client of the container.
    pub client: Client,
    /// The link of the container: `dbs/…/colls/…`.
    pub link: String,
}

/// The rows of a query and the cost of all its pages.
pub struct Rows {
    /// The rows.
    pub rows: Vec<Value>,
    /// Request charge of all pages, in RU.
    pub charge: f64,
    /// Physical partitions that the first page asked, as the server reports them.
    pub partitions: u64,
}

/// The logical partition of a query, or all of them.
#[derive(Clone, Copy)]
pub enum Scope<'a> {
    /// One logical partition, named in a header.
    Key(&'a str),
    /// All items. The server asks only the partitions that the filter leaves.
    All,
    /// One physical partition, by the id of its range.
    Range(&'a str),
    /// All items, without the header that allows it: the server refuses.
    NotAllowed,
}

impl Container {
    /// Returns the same container for a client with another credential or other retries.
    pub fn seen_by(&self, client: &Client) -> Container {
        Container {
            client: client.clone(),
            link: self.link.clone(),
        }
    }

    /// Begins a request to the feed of items.
    pub fn docs(&self, method: Method) -> Request {
        request(&self.client, method, format!("{}/docs", self.link))
    }

    /// Begins a request to one item.
    pub fn doc(&self, method: Method, id: &str) -> Request {
        request(&self.client, method, format!("{}/docs/{id}", self.link))
    }

    /// Creates an item and returns the response.
    pub async fn create(&self, key: &str, item: &Value) -> Result<Response> {
        let key = PartitionKey::text(key);
        let created = self.client.create_item(&self.link, &key, item.to_string());
        Response::of(created.await?)
    }

    /// Creates an item or replaces the item with the same key and id.
    pub async fn upsert(&self, key: &str, item: &Value) -> Result<Response> {
        let key = PartitionKey::text(key);
        let stored = self.client.upsert_item(&self.link, &key, item.to_string());
        Response::of(stored.await?)
    }

    /// Reads an item by key and id: the cheapest request there is.
    pub async fn read(&self, key: &str, id: &str) -> Result<Response> {
        let key = PartitionKey::text(key);
        Response::of(self.client.read_item(&self.link, &key, id).await?)
    }

    /// Replaces an item.
    pub async fn replace(&self, key: &str, item: &Value) -> Result<Response> {
        let (key, text) = (PartitionKey::text(key), item.to_string());
        let id = item["id"].as_str().unwrap_or_default();
        let replaced = self.client.replace_item(&self.link, &key, id, text, None);
        Response::of(replaced.await?)
    }

    /// Deletes an item. An item that does not exist is an error.
    pub async fn delete(&self, key: &str, id: &str) -> Result<Response> {
        let key = PartitionKey::text(key);
        Response::of(self.client.delete_item(&self.link, &key, id, None).await?)
    }

    /// Begins a request for one page of a query.
    pub fn page(&self, scope: Scope<'_>, text: &str, parameters: &[(&str, Value)]) -> Request {
        let mut listed = Vec::new();
        for (name, value) in parameters {
            listed.push(json!({"name": name, "value": value}));
        }
        let request = self
            .docs(Method::POST)
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header("x-ms-max-item-count", "1000")
            // An extension of this server: the response says which partitions were asked.
            .header("x-orrery-explain", "True")
            .body(&json!({"query": text, "parameters": listed}));
        match scope {
            Scope::Key(key) => request.key(key),
            Scope::All => request.header("x-ms-documentdb-query-enablecrosspartition", "True"),
            Scope::Range(id) => request
                .header("x-ms-documentdb-query-enablecrosspartition", "True")
                .header("x-ms-documentdb-partitionkeyrangeid", id),
            Scope::NotAllowed => request,
        }
    }

    /// Runs a query and returns the rows of all pages.
    pub async fn query(
        &self,
        scope: Scope<'_>,
        text: &str,
        parameters: &[(&str, Value)],
    ) -> Result<Rows> {
        let mut found = Rows {
            rows: Vec::new(),
            charge: 0.0,
            partitions: 0,
        };
        let mut continuation: Option<String> = None;
        loop {
            let mut request = self.page(scope, text, parameters);
            if let Some(token) = &continuation {
                request = request.header("x-ms-continuation", token);
            }
            let mut page = request.send().await?.expect(200)?;
            found.charge += page.charge();
            found.partitions = found.partitions.max(partitions_asked(&page));
            continuation = page.answer.continuation().map(str::to_owned);
            if let Some(rows) = page.body["Documents"].as_array_mut() {
                found.rows.append(rows);
            }
            if continuation.is_none() {
                return Ok(found);
            }
        }
    }

    /// Returns the number of items in a scope.
    pub async fn count(&self, scope: Scope<'_>) -> Result<u64> {
        let found = self.query(scope, "SELECT VALUE COUNT(1) FROM c", &[]);
        // With a scope of one physical partition a page holds a part of the count.
        let rows = found.await?.rows;
        Ok(rows.iter().filter_map(Value::as_u64).sum())
    }

    /// Returns the ids of the physical partitions, in the order of their hash ranges.
    pub async fn partitions(&self) -> Result<Vec<String>> {
        let ranges = self.client.fresh_ranges(&self.link).await?;
        Ok(ranges.iter().map(|range| range.id.clone()).collect())
    }

    /// Returns the number of items in each physical partition.
    pub async fn spread(&self) -> Result<Vec<u64>> {
        let mut counts = Vec::new();
        for id in self.partitions().await? {
            counts.push(self.count(Scope::Range(&id)).await?);
        }
        Ok(counts)
    }

    /// Creates a stored procedure.
    pub async fn create_procedure(&self, id: &str, source: &str) -> Result<()> {
        let definition = json!({"id": id, "body": source});
        self.client
            .create_script(&self.link, ScriptKind::Procedure, &definition)
            .await?;
        Ok(())
    }

    /// Begins the execution of a stored procedure in one logical partition.
    pub fn execution(&self, procedure: &str, key: &str, arguments: &Value) -> Request {
        let path = format!("{}/sprocs/{procedure}", self.link);
        request(&self.client, Method::POST, path)
            .key(key)
            .body(arguments)
    }

    /// Changes the throughput of the container.
    pub async fn set_throughput(&self, throughput: u32) -> Result<()> {
        let offer = self.client.offer(&self.link).await?;
        let offer = offer.ok_or("the container has no offer")?;
        let throughput = Throughput::Manual(throughput);
        self.client.set_throughput(&offer, throughput).await?;
        Ok(())
    }

    /// Reads one page of the changes of a logical partition after `position`, or from the
    /// beginning. Returns the items and the next position. No items means no changes so far.
    pub async fn changes(&self, key: &str, position: Option<&str>) -> Result<(Vec<Value>, String)> {
        let key = PartitionKey::text(key);
        let scope = orrery_client::Scope::Key(&key);
        let page = self
            .client
            .changes_page(&self.link, scope, position, 200)
            .await?;
        let items = page
            .items
            .iter()
            .map(|item| serde_json::from_str(item.get()));
        Ok((items.collect::<std::result::Result<_, _>>()?, page.etag))
    }

    /// Deletes all items of a logical partition.
    pub async fn delete_key(&self, key: &str) -> Result<()> {
        let path = format!("{}/operations/partitionkeydelete", self.link);
        let request = request(&self.client, Method::POST, path).key(key);
        request.send().await?.expect(200).map(drop)
    }
}

/// Returns the number of physical partitions that a page asked; 0 if the server does not say.
fn partitions_asked(page: &Response) -> u64 {
    let Some(explanation) = page.answer.header("x-orrery-explanation") else {
        return 0;
    };
    let text = percent_encoding::percent_decode_str(explanation).decode_utf8_lossy();
    let explanation = serde_json::from_str::<Value>(&text).unwrap_or_default();
    explanation["rangesAsked"].as_u64().unwrap_or(0)
}
