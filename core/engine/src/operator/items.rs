//! The items of a container for the operator. Nothing here is charged.

use crate::Engine;
use crate::catalog::Container;
use crate::query::PAGE_ITEMS_MAX;
use crate::request::{PageRequest, QueryRequest, ReadOptions, Scope};
use crate::throughput::PartitionCharges;
use bytes::Bytes;
use orrery_model::Result;

/// The first items of a container.
#[derive(Clone, Debug)]
pub struct UnchargedItems {
    /// The JSON texts of the items.
    pub rows: Vec<Bytes>,
    /// True if the container has no further items.
    pub is_complete: bool,
}

impl Engine {
    /// Returns the first items of a container, about `most` of them, without a charge.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn uncharged_items(&self, container: &Container, most: usize) -> Result<UnchargedItems> {
        let mut rows = Vec::new();
        let mut page = PageRequest {
            max_items: Some(PAGE_ITEMS_MAX.min(most)),
            ..PageRequest::default()
        };
        loop {
            let query = QueryRequest::everything(&page);
            let (options, charges) = (ReadOptions::default(), PartitionCharges::unmetered());
            let (result, _, _) =
                self.run_query(container, &Scope::Everything, &query, options, charges);
            let answer = result?.page;
            rows.extend(answer.rows);
            match answer.continuation {
                None => {
                    return Ok(UnchargedItems {
                        rows,
                        is_complete: true,
                    });
                }
                Some(_) if rows.len() >= most => {
                    return Ok(UnchargedItems {
                        rows,
                        is_complete: false,
                    });
                }
                continuation => page.continuation = continuation,
            }
        }
    }
}
