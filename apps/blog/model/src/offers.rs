//! The throughput of a container, and the sizes of its physical partitions, read and changed
//! through the protocol.
//!
//! The throughput of a container is the content of its *offer*, a resource of its own that refers
//! to the container. To replace an offer by one with another throughput is the only way in which
//! the protocol changes throughput; if more throughput needs more physical partitions, the server
//! splits them afterwards.
//!
//! Left out: autoscale and the throughput of databases. The throughput of a container that has
//! either is unknown here.

use crate::BlogError;
use crate::client::{ApiRequest, Client};
use http::Method;
use serde_json::{Value, json};

/// The throughput of a container.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// Provisioned RU/s of the container.
    pub ru_per_second: u32,
    /// The offer as the server stores it.
    body: Value,
}

/// The size of one physical partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSize {
    /// Id of the partition key range.
    pub range: String,
    /// Size of the items in KB.
    pub kilobytes: u64,
    /// Number of items.
    pub items: u64,
}

impl Client {
    /// Returns the throughput of a container, or `None` if it has no throughput of its own.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn offer(&self, container: &str) -> Result<Option<Offer>, BlogError> {
        let resource = self.container_properties(container, false).await?;
        let Some(rid) = resource["_rid"].as_str() else {
            return Err(BlogError::unexpected(container, "a container without _rid"));
        };
        let query = json!({
            "query": "SELECT * FROM root r WHERE r.offerResourceId = @rid",
            "parameters": [{"name": "@rid", "value": rid}],
        });
        let headers = vec![
            ("content-type", "application/query+json".to_owned()),
            ("x-ms-documentdb-isquery", "True".to_owned()),
        ];
        let request = ApiRequest::new(Method::POST, "offers", "", "offers")
            .with_headers(headers)
            .with_body(query.to_string());
        let response = self.send(&request).await?.into_success()?;
        let mut found = response.json()?;
        let offer = found["Offers"][0].take();
        Ok(throughput_of(&offer).map(|ru_per_second| Offer {
            ru_per_second,
            body: offer,
        }))
    }

    /// Sets the throughput of a container by a replacement of its offer, unless the container has
    /// it already. A server that has to split
    /// partitions for the throughput does so after the answer.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with 400 for a throughput below the container's minimum, and
    /// [`BlogError::Unexpected`] if the container has no throughput of its own.
    pub async fn set_throughput(
        &self,
        container: &str,
        ru_per_second: u32,
    ) -> Result<(), BlogError> {
        let Some(mut offer) = self.offer(container).await? else {
            return Err(BlogError::unexpected(
                container,
                "a container without a throughput of its own",
            ));
        };
        if offer.ru_per_second == ru_per_second {
            return Ok(());
        }
        offer.body["content"]["offerThroughput"] = ru_per_second.into();
        let rid = offer.body["_rid"].as_str().unwrap_or_default().to_owned();
        // The signature of an offer covers its resource id in lower case.
        let link = rid.to_lowercase();
        let request = ApiRequest::new(Method::PUT, "offers", &link, format!("offers/{rid}"))
            .with_body(offer.body.to_string());
        self.send(&request).await?.into_success().map(drop)
    }

    /// Deletes a container. A container that does not exist is not an error.
    ///
    /// # Errors
    /// Every other error of a request.
    pub async fn delete_container(&self, container: &str) -> Result<(), BlogError> {
        let request = ApiRequest::new(Method::DELETE, "colls", container, container);
        self.clear_cached_metadata(container);
        match self.send(&request).await?.into_success() {
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(()),
        }
    }

    /// Returns the sizes of the physical partitions of a container. The list is empty if the server
    /// does not tell.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn partition_sizes(&self, container: &str) -> Result<Vec<PartitionSize>, BlogError> {
        let resource = self.container_properties(container, true).await?;
        let mut sizes = Vec::new();
        for row in resource["statistics"].as_array().into_iter().flatten() {
            sizes.push(PartitionSize {
                range: row["id"].as_str().unwrap_or_default().to_owned(),
                kilobytes: row["sizeInKB"].as_u64().unwrap_or_default(),
                items: row["documentCount"].as_u64().unwrap_or_default(),
            });
        }
        Ok(sizes)
    }

    /// Reads the properties of a container.
    async fn container_properties(
        &self,
        container: &str,
        with_statistics: bool,
    ) -> Result<Value, BlogError> {
        let mut headers = Vec::new();
        if with_statistics {
            headers.push((
                "x-ms-documentdb-populatepartitionstatistics",
                "True".to_owned(),
            ));
        }
        let request =
            ApiRequest::new(Method::GET, "colls", container, container).with_headers(headers);
        self.send(&request).await?.into_success()?.json()
    }
}

/// Returns the manual throughput in an offer.
fn throughput_of(offer: &Value) -> Option<u32> {
    let content = &offer["content"];
    if content
        .get("offerAutopilotSettings")
        .is_some_and(|settings| !settings.is_null())
    {
        return None;
    }
    content["offerThroughput"].as_u64()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_with_autoscale_has_no_manual_throughput() {
        let manual = json!({"content": {"offerThroughput": 400}});
        assert_eq!(throughput_of(&manual), Some(400));
        let autoscale = json!({"content": {"offerThroughput": 400, "offerAutopilotSettings": {}}});
        assert_eq!(throughput_of(&autoscale), None);
        assert_eq!(throughput_of(&Value::Null), None);
    }
}
