//! The traffic of a container as callers of the engine read it.

use super::top_keys::Ranks;
use crate::Engine;
use crate::catalog::Container;
use crate::partition::keys;
use crate::partition::row_reader::rows_of_epk_prefix;
use crate::request::{
    ContainerLoad, HeatColumn, KeyMeasure, KeyWindow, QueryForm, RecordedTraffic, TopKey, TopKeys,
};
use orrery_model::json::parse;
use orrery_model::partition_key::Epk;
use orrery_model::{Json, Result};
use std::sync::Arc;

/// Items that are read for the values of one key: hierarchical keys may share an EPK prefix.
const LOOKED_AT: usize = 64;

impl Engine {
    /// Returns the columns of a container's heat map that overlap `from_ms..to_ms` (milliseconds
    /// since 1970), the oldest first. Older columns are wider. The map begins with the start of the
    /// process.
    pub fn heat_map(&self, container: &Container, from_ms: u64, to_ms: u64) -> Vec<HeatColumn> {
        container
            .traffic()
            .heat_map(self.world().now_ms(), from_ms, to_ms)
    }

    /// Returns the partition keys with the greatest sums. Their values are read from an item of the
    /// key.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn top_keys(
        &self,
        container: &Container,
        measure: KeyMeasure,
        window: KeyWindow,
    ) -> Result<TopKeys> {
        let Ranks {
            since_ms,
            keys,
            others_at_most,
            total,
        } = container
            .traffic()
            .top_keys(self.world().now_ms(), measure, window);
        let named = keys.iter().map(|(epk, amount, error)| {
            let (amount, error) = (*amount, *error);
            Ok(TopKey {
                key: values_of(container, epk)?,
                epk: Epk::clone(epk),
                amount,
                error,
            })
        });
        Ok(TopKeys {
            since_ms,
            keys: named.collect::<Result<_>>()?,
            others_at_most,
            total,
        })
    }

    /// Returns the containers that had requests since the start, with the sums of their load.
    pub fn container_loads(&self) -> Vec<(Arc<Container>, ContainerLoad)> {
        let mut loads = Vec::new();
        for container in self.catalog().all_containers() {
            if let Some(load) = container.traffic().load() {
                loads.push((container, load));
            }
        }
        loads
    }

    /// Returns the forms of a container's queries, the most expensive in total first.
    pub fn query_forms(&self, container: &Container) -> Vec<QueryForm> {
        container.traffic().queries()
    }

    /// Returns the requests to a container since the process started, in the form from which they
    /// can be repeated.
    pub fn recorded_traffic(&self, container: &Container) -> RecordedTraffic {
        container.traffic().recorded()
    }
}

/// Returns the text of a query without its values; `None` if the text contains an invalid token.
pub fn query_form(text: &str) -> Option<String> {
    orrery_sql::QueryForm::of(text).map(|form| form.text)
}

/// Returns the values of the partition key with an EPK prefix, from an item of the key.
fn values_of(container: &Container, epk: &Epk) -> Result<Option<Json>> {
    let snapshot = container.partition_of(epk).snapshot()?;
    for stored in rows_of_epk_prefix(snapshot.as_ref(), keys::epk_prefix(epk), 0).take(LOOKED_AT) {
        let stored = stored?;
        let item = if stored.row.epk == *epk {
            parse(&stored.row.body).ok()
        } else {
            None
        };
        if let Some(Json::Object(item)) = item {
            return container
                .partition_key()
                .extract(&item)
                .map(|key| Some(key.to_json()));
        }
    }
    Ok(None)
}
