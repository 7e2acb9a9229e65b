//! What callers of the engine see of the traffic of a container.

use super::top_keys::Ranks;
use crate::Engine;
use crate::catalog::Container;
use crate::partition::keys;
use crate::partition::row_reader::rows_of_epk_prefix;
use crate::request::{HeatColumn, KeyMeasure, KeyWindow, QueryForm, TopKey, TopKeys};
use orrery_model::json::parse;
use orrery_model::partition_key::Epk;
use orrery_model::{Json, Result};

/// Items that are looked at for the values of one key: keys of several levels may share the beginning of their place.
const LOOKED_AT: usize = 64;

impl Engine {
    /// The heat map of a container from `from_ms` to before `to_ms`, in milliseconds since 1970: columns that overlap
    /// that time, the oldest first, the old ones wider. It begins with the start of the process.
    pub fn heat_map(&self, container: &Container, from_ms: u64, to_ms: u64) -> Vec<HeatColumn> {
        container
            .traffic()
            .heat_map(self.world().now_ms(), from_ms, to_ms)
    }

    /// The logical keys of which most was asked. Their values are taken from an item that has them.
    ///
    /// # Errors
    /// What the store reports.
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

    /// The forms of the queries that a container was asked, the dearest in total first.
    pub fn query_forms(&self, container: &Container) -> Vec<QueryForm> {
        container.traffic().queries()
    }
}

/// The values of the partition key that lies at a place, from an item that has them.
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
