//! Databases, containers and their throughput.

use azure_data_cosmos::models::{ContainerProperties, ThroughputProperties};
use azure_data_cosmos::options::CreateContainerOptions;
use azure_data_cosmos::{ContainerClient, DatabaseClient};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::arguments::Arguments;
use crate::feeds::{pages, query};
use crate::{Driver, Failure, Outcome};

impl Driver {
    pub async fn database(&mut self, a: &mut Arguments) -> Result<DatabaseClient, Failure> {
        let name = a.named("database")?;
        self.reach("CosmosClient::database_client");
        Ok(self.client().await?.database_client(name))
    }

    pub async fn container(&mut self, a: &mut Arguments) -> Result<ContainerClient, Failure> {
        let (database, name) = (self.database(a).await?, a.named("container")?);
        self.reach("DatabaseClient::container_client");
        Ok(database.container_client(name, None).await?)
    }

    pub async fn create_database(&mut self, a: &mut Arguments) -> Outcome {
        let name = a.named("database")?;
        self.reach("CosmosClient::create_database");
        Answer::resource(self.client().await?.create_database(&name, None).await?)
    }

    pub async fn read_database(&mut self, a: &mut Arguments) -> Outcome {
        let database = self.database(a).await?;
        self.reach("DatabaseClient::read");
        Answer::resource(database.read(None).await?)
    }

    pub async fn delete_database(&mut self, a: &mut Arguments) -> Outcome {
        let database = self.database(a).await?;
        self.reach("DatabaseClient::delete");
        Answer::resource(database.delete(None).await?)
    }

    pub async fn query_databases(&mut self, a: &mut Arguments) -> Outcome {
        let query = query(self, a)?;
        self.reach("CosmosClient::query_databases");
        let found = self.client().await?.query_databases(query, None).await?;
        pages(self, a, found).await
    }

    pub async fn create_container(&mut self, a: &mut Arguments) -> Outcome {
        let database = self.database(a).await?;
        let properties = container_properties(a)?;
        let mut options = CreateContainerOptions::default();
        if let Some(throughput) = a.throughput(&mut |method| self.reach(method)) {
            options = options.with_throughput(throughput);
        }
        self.reach("DatabaseClient::create_container");
        Answer::resource(database.create_container(properties, Some(options)).await?)
    }

    pub async fn read_container(&mut self, a: &mut Arguments) -> Outcome {
        let container = self.container(a).await?;
        self.reach("ContainerClient::read");
        Answer::resource(container.read(None).await?)
    }

    pub async fn replace_container(&mut self, a: &mut Arguments) -> Outcome {
        let container = self.container(a).await?;
        self.reach("ContainerClient::replace");
        Answer::resource(container.replace(container_properties(a)?, None).await?)
    }

    pub async fn delete_container(&mut self, a: &mut Arguments) -> Outcome {
        let container = self.container(a).await?;
        self.reach("ContainerClient::delete");
        Answer::resource(container.delete(None).await?)
    }

    pub async fn query_containers(&mut self, a: &mut Arguments) -> Outcome {
        let (database, query) = (self.database(a).await?, query(self, a)?);
        self.reach("DatabaseClient::query_containers");
        let found = database.query_containers(query, None).await?;
        pages(self, a, found).await
    }

    pub async fn read_database_throughput(&mut self, a: &mut Arguments) -> Outcome {
        let database = self.database(a).await?;
        self.reach("DatabaseClient::read_throughput");
        let found = database.read_throughput(None).await?;
        Ok(self.offer(found))
    }

    pub async fn replace_database_throughput(&mut self, a: &mut Arguments) -> Outcome {
        let database = self.database(a).await?;
        let wanted = self.wanted(a)?;
        self.reach("DatabaseClient::begin_replace_throughput");
        let replaced = database.begin_replace_throughput(wanted, None).await?.await?.into_model()?;
        Ok(self.offer(Some(replaced)))
    }

    pub async fn read_container_throughput(&mut self, a: &mut Arguments) -> Outcome {
        let container = self.container(a).await?;
        self.reach("ContainerClient::read_throughput");
        let found = container.read_throughput(None).await?;
        Ok(self.offer(found))
    }

    pub async fn replace_container_throughput(&mut self, a: &mut Arguments) -> Outcome {
        let container = self.container(a).await?;
        let wanted = self.wanted(a)?;
        self.reach("ContainerClient::begin_replace_throughput");
        let replaced = container.begin_replace_throughput(wanted, None).await?.await?.into_model()?;
        Ok(self.offer(Some(replaced)))
    }

    fn wanted(&mut self, a: &mut Arguments) -> Result<ThroughputProperties, Failure> {
        let wanted = a.throughput(&mut |method| self.reach(method));
        wanted.ok_or_else(|| Failure::Raised("no throughput is given".to_owned()))
    }

    /// Answers an offer as the SDK read it: its RU/s, or the maximum RU/s of autoscale; 404 if
    /// there is no offer.
    fn offer(&mut self, offer: Option<ThroughputProperties>) -> Answer {
        let Some(offer) = offer else { return Answer::status(404) };
        self.reach("ThroughputProperties::throughput");
        self.reach("ThroughputProperties::autoscale_maximum");
        self.reach("ThroughputProperties::autoscale_increment");
        let mut body = json!({"increment": offer.autoscale_increment()});
        match offer.autoscale_maximum() {
            Some(most) => body["autoscale_max"] = Value::from(most),
            None => body["throughput"] = Value::from(offer.throughput()),
        }
        Answer::status(200).with("body", body)
    }
}

fn container_properties(a: &mut Arguments) -> Result<ContainerProperties, Failure> {
    Ok(serde_json::from_value(a.json("properties").unwrap_or_default())?)
}
