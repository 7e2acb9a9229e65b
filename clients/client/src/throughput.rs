//! The throughput of databases and containers: the content of their *offers*.

use crate::answer::Answer;
use crate::client::Client;
use crate::error::ClientError;
use crate::request::Request;
use crate::scope::QueryText;
use http::Method;
use serde_json::{Value, json};

/// Throughput in RU/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Throughput {
    /// Provisioned RU/s.
    Manual(u32),
    /// Largest RU/s of autoscale.
    Autoscale(u32),
}

impl Throughput {
    /// Adds the headers with which a database or container is created.
    pub(crate) fn add_to(throughput: Option<Self>, request: Request) -> Request {
        match throughput {
            None => request,
            Some(Self::Manual(ru)) => request.header("x-ms-offer-throughput", ru.to_string()),
            Some(Self::Autoscale(ru)) => request.header(
                "x-ms-cosmos-offer-autopilot-settings",
                json!({"maxThroughput": ru}).to_string(),
            ),
        }
    }
}

/// The offer of a database or container.
#[derive(Debug, Clone, PartialEq)]
pub struct Offer {
    /// The throughput.
    pub throughput: Throughput,
    /// The offer as the server stores it.
    body: Value,
}

impl Client {
    /// Returns the offer of the database or container at `link`, or `None` if it has no throughput
    /// of its own.
    ///
    /// # Errors
    /// Those of [`Client::request`].
    pub async fn offer(&self, link: &str) -> Result<Option<Offer>, ClientError> {
        let resource: Value = self.read(link).await?.json()?;
        let Some(rid) = resource["_rid"].as_str() else {
            return Err(ClientError::unexpected(link, "a resource without _rid"));
        };
        let query = QueryText::new("SELECT * FROM root r WHERE r.offerResourceId = @rid");
        let query = query.with("@rid", rid);
        let request = Request::new(Method::POST, "offers")
            .header("content-type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .body(query.body())
            .repeatable();
        let found: Value = self.request(&request).await?.json()?;
        let offers = found.get("Offers").and_then(Value::as_array);
        let Some(body) = offers.and_then(|offers| offers.first()).cloned() else {
            return Ok(None);
        };
        Ok(throughput_of(&body).map(|throughput| Offer { throughput, body }))
    }

    /// Changes the throughput of an offer. To change between manual and autoscale is an operation
    /// of the service's control plane and refused here.
    ///
    /// # Errors
    /// [`ClientError::InvalidOption`] for a change of the kind; those of [`Client::request`].
    pub async fn set_throughput(
        &self,
        offer: &Offer,
        throughput: Throughput,
    ) -> Result<Answer, ClientError> {
        let mut body = offer.body.clone();
        match (offer.throughput, throughput) {
            (Throughput::Manual(_), Throughput::Manual(ru)) => {
                body["content"]["offerThroughput"] = ru.into();
            }
            (Throughput::Autoscale(_), Throughput::Autoscale(ru)) => {
                body["content"]["offerAutopilotSettings"]["maxThroughput"] = ru.into();
            }
            _ => {
                return Err(ClientError::InvalidOption(
                    "manual throughput cannot be changed into autoscale or back through offers"
                        .into(),
                ));
            }
        }
        let rid = body["_rid"].as_str().unwrap_or_default();
        let request = Request::new(Method::PUT, format!("offers/{rid}"));
        self.request(&request.body(body.to_string()).repeatable())
            .await
    }
}

/// Returns the throughput in an offer.
fn throughput_of(offer: &Value) -> Option<Throughput> {
    let content = &offer["content"];
    let ru = |value: &Value| value.as_u64()?.try_into().ok();
    match content.get("offerAutopilotSettings") {
        Some(Value::Object(settings)) => {
            Some(Throughput::Autoscale(ru(settings.get("maxThroughput")?)?))
        }
        _ => Some(Throughput::Manual(ru(&content["offerThroughput"])?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_manual_or_autoscale() {
        let manual = json!({"content": {"offerThroughput": 400}});
        assert_eq!(throughput_of(&manual), Some(Throughput::Manual(400)));
        let settings = json!({"maxThroughput": 4000});
        let autoscale =
            json!({"content": {"offerThroughput": 400, "offerAutopilotSettings": settings}});
        assert_eq!(throughput_of(&autoscale), Some(Throughput::Autoscale(4000)));
        assert_eq!(throughput_of(&Value::Null), None);
    }
}
