//! Everything that comes in pages: queries, feed ranges, the change feed.

use std::num::NonZeroU32;

use azure_data_cosmos::feed::{ContinuationToken, FeedRange, QueryItemIterator};
use azure_data_cosmos::models::ChangeFeedItem;
use azure_data_cosmos::options::{
    ChangeFeedMode, ChangeFeedOptions, ChangeFeedStartFrom, MaxItemCountHint, QueryOptions,
};
use azure_data_cosmos::{FeedScope, Query};
use futures::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::answer::{Answer, names};
use crate::arguments::Arguments;
use crate::{Driver, Failure, Outcome};

/// The query with its parameters.
pub fn query(driver: &mut Driver, a: &mut Arguments) -> Result<Query, Failure> {
    let mut query = Query::from(a.named("query")?);
    for parameter in a.json("parameters").unwrap_or_default().as_array().into_iter().flatten() {
        driver.reach("Query::with_parameter");
        query = query.with_parameter(parameter["name"].as_str().unwrap_or_default(), &parameter["value"])?;
    }
    Ok(query)
}

fn page_size(a: &mut Arguments) -> Option<MaxItemCountHint> {
    let size = a.number("page_size").and_then(|size| u32::try_from(size).ok()).and_then(NonZeroU32::new)?;
    Some(MaxItemCountHint::Limit(size))
}

/// The pages of a query, or as many as the step asks for.
pub async fn pages<T>(driver: &mut Driver, a: &mut Arguments, found: QueryItemIterator<T>) -> Outcome
where
    T: DeserializeOwned + Serialize + Send + 'static,
{
    driver.reach("QueryItemIterator::into_pages");
    let most = a.number("max_pages");
    let (mut items, mut sizes, mut headers) = (Vec::new(), Vec::new(), json!({}));
    let mut pages = found.into_pages();
    let mut ended = false;
    while most.is_none_or(|most| (sizes.len() as u64) < most) {
        let Some(page) = pages.next().await.transpose()? else {
            ended = true;
            break;
        };
        headers = names(page.headers());
        if let Some(metrics) = page.index_metrics() {
            headers["x-ms-cosmos-index-utilization"] = json!(metrics);
        }
        sizes.push(page.items().len());
        for item in page.items() {
            items.push(serde_json::to_value(item)?);
        }
    }
    let mut answer =
        Answer::status(200).with("headers", headers).with("items", json!(items)).with("pages", json!(sizes));
    if !ended {
        driver.reach("QueryPageIterator::to_continuation_token");
        answer = answer.with("continuation", json!(pages.to_continuation_token()?.as_str()));
    }
    Ok(answer)
}

impl Driver {
    /// What of the container is asked: a partition key, a feed range, or all of it.
    fn scope(&mut self, a: &mut Arguments) -> Result<FeedScope, Failure> {
        if a.has("partition_key") {
            self.reach("FeedScope::partition");
            return Ok(FeedScope::partition(a.partition_key()?));
        }
        if let Some(range) = a.text("feed_range") {
            self.reach("FeedScope::range");
            return Ok(FeedScope::range(range.parse::<FeedRange>()?));
        }
        self.reach("FeedScope::full_container");
        Ok(FeedScope::full_container())
    }

    pub async fn query_items(&mut self, a: &mut Arguments) -> Outcome {
        let (container, query, scope) = (self.container(a).await?, query(self, a)?, self.scope(a)?);
        let mut options = QueryOptions::default().with_populate_index_metrics(a.flag("index_metrics"));
        if let Some(size) = page_size(a) {
            options = options.with_max_item_count(size);
        }
        if let Some(token) = a.text("continuation") {
            options = options.with_continuation_token(ContinuationToken::from_string(token));
        }
        if let Some(token) = a.text("session_token") {
            options = options.with_session_token(token);
        }
        self.reach("ContainerClient::query_items");
        let found = container.query_items::<Value>(query, scope, Some(options)).await?;
        pages(self, a, found).await
    }

    pub async fn read_feed_ranges(&mut self, a: &mut Arguments) -> Outcome {
        let container = self.container(a).await?;
        self.reach("ContainerClient::read_feed_ranges");
        let ranges = container.read_feed_ranges(None).await?;
        Ok(Answer::status(200).with("items", texts(&ranges)))
    }

    pub async fn feed_range_of_partition_key(&mut self, a: &mut Arguments) -> Outcome {
        let (container, key) = (self.container(a).await?, a.partition_key()?);
        self.reach("ContainerClient::feed_range_from_partition_key");
        let ranges = container.feed_range_from_partition_key(key, None).await?;
        Ok(Answer::status(200).with("items", texts(&ranges)))
    }

    /// Reads until there is nothing new, or as many pages as the step asks for.
    pub async fn change_feed(&mut self, a: &mut Arguments) -> Outcome {
        let (container, scope) = (self.container(a).await?, self.scope(a)?);
        let start = match a.text("start").as_deref() {
            None | Some("beginning") => ChangeFeedStartFrom::Beginning,
            Some("now") => ChangeFeedStartFrom::Now,
            Some(time) => {
                let time = OffsetDateTime::parse(time, &Rfc3339).map_err(|error| Failure::Raised(error.to_string()))?;
                ChangeFeedStartFrom::PointInTime(time)
            }
        };
        let mut options = ChangeFeedOptions::default();
        if a.text("mode").as_deref() == Some("all versions") {
            options = options.with_mode(ChangeFeedMode::AllVersionsAndDeletes);
        }
        if let Some(size) = page_size(a) {
            options = options.with_max_item_count(size);
        }
        if let Some(token) = a.text("continuation") {
            options = options.with_continuation_token(ContinuationToken::from_string(token));
        }
        let most = a.number("max_pages");
        self.reach("ContainerClient::query_change_feed");
        let mut pages = container.query_change_feed::<Value>(scope, start, Some(options)).await?;
        let (mut items, mut sizes, mut status) = (Vec::new(), Vec::new(), 200);
        while most.is_none_or(|most| (sizes.len() as u64) < most) {
            let page = pages.next().await.transpose()?;
            let found = page.as_ref().map_or(&[][..], |page| page.items());
            sizes.push(found.len());
            items.extend(found.iter().map(seen));
            if found.is_empty() {
                status = 304;
                break;
            }
        }
        self.reach("ChangeFeedPageIterator::to_continuation_token");
        let token = pages.to_continuation_token()?;
        let answer = Answer::status(status).with("continuation", json!(token.as_str()));
        Ok(answer.with("items", Value::Array(items)).with("pages", json!(sizes)))
    }
}

/// A change as an item, with the place in the feed that its envelope names.
fn seen(change: &ChangeFeedItem<Value>) -> Value {
    if let (Some(operation), Some(metadata)) = (change.operation_type(), change.metadata()) {
        let seen = json!({
            "operationType": format!("{operation:?}").to_lowercase(),
            "lsn": metadata.lsn().map(|lsn| lsn.value()),
            "previousImageLSN": metadata.previous_image_lsn().map(|lsn| lsn.value()),
            "timeToLiveExpired": metadata.time_to_live_expired(),
            "partitionKey": metadata.partition_key(),
        });
        let (current, previous) = (change.current(), change.previous());
        return json!({"current": current, "previous": previous, "metadata": seen});
    }
    let mut item = change.current().cloned().unwrap_or_default();
    if let Some(lsn) = change.metadata().and_then(|metadata| metadata.lsn()) {
        item["_lsn"] = json!(lsn.value());
    }
    item
}

fn texts(ranges: &[FeedRange]) -> Value {
    Value::Array(ranges.iter().map(|range| Value::String(range.to_string())).collect())
}
