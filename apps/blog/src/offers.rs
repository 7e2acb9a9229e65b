//! The throughput of a container that exists: its offer is read and replaced.

use crate::BlogError;
use crate::client::{ApiRequest, Client};
use http::Method;
use serde_json::{Value, json};

impl Client {
    /// Sets the manual throughput of a container in RU/s, unless the container has it already.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with 400 if the throughput is below the minimum of the container or
    /// its mode is autoscale; [`BlogError::Unexpected`] if the container has no offer.
    pub async fn set_throughput(
        &self,
        container: &str,
        ru_per_second: u32,
    ) -> Result<(), BlogError> {
        let mut offer = self.offer(container).await?;
        if offer["content"]["offerThroughput"] == ru_per_second {
            return Ok(());
        }
        offer["content"]["offerThroughput"] = ru_per_second.into();
        // The id of an offer is its resource id. Links by resource id are signed in lower case.
        let id = offer["id"].as_str().unwrap_or_default();
        let link = id.to_lowercase();
        let request = ApiRequest::new(Method::PUT, "offers", &link, format!("offers/{id}"))
            .with_body(offer.to_string());
        self.send(&request).await?.into_success().map(drop)
    }

    /// Returns the offer of a container.
    async fn offer(&self, container: &str) -> Result<Value, BlogError> {
        let request = ApiRequest::new(Method::GET, "colls", container, container);
        let response = self.send(&request).await?.into_success()?;
        let rid = response.json()?["_rid"].take();
        let body = json!({
            "query": "SELECT * FROM root WHERE root.offerResourceId = @rid",
            "parameters": [{"name": "@rid", "value": rid}],
        });
        let headers = vec![
            ("x-ms-documentdb-isquery", "True".to_owned()),
            ("content-type", "application/query+json".to_owned()),
        ];
        let request = ApiRequest::new(Method::POST, "offers", "", "offers")
            .with_headers(headers)
            .with_body(body.to_string());
        let response = self.send(&request).await?.into_success()?;
        match response.json()?["Offers"][0].take() {
            Value::Null => Err(BlogError::unexpected(
                format!("offer of /{container}"),
                "the container has no throughput of its own",
            )),
            offer => Ok(offer),
        }
    }
}
