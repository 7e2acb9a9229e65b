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
use crate::client::Client;
use orrery_client::Throughput;
use serde_json::Value;

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
    /// Returns the provisioned RU/s of a container, or `None` if it has no throughput of its own or
    /// autoscale.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn throughput(&self, container: &str) -> Result<Option<u32>, BlogError> {
        let offer = self.unmetered().offer(container).await?;
        Ok(match offer.map(|offer| offer.throughput) {
            Some(Throughput::Manual(ru_per_second)) => Some(ru_per_second),
            Some(Throughput::Autoscale(_)) | None => None,
        })
    }

    /// Sets the throughput of a container by a replacement of its offer, unless the container has
    /// it already. A server that has to split
    /// partitions for the throughput does so after the answer.
    ///
    /// # Errors
    /// [`BlogError::Refused`] with 400 for a throughput below the container's minimum, and
    /// [`BlogError::Unexpected`] if the container has no throughput of its own or autoscale.
    pub async fn set_throughput(
        &self,
        container: &str,
        ru_per_second: u32,
    ) -> Result<(), BlogError> {
        let offer = self.unmetered().offer(container).await?;
        let is_manual =
            |offer: &orrery_client::Offer| matches!(offer.throughput, Throughput::Manual(_));
        let Some(offer) = offer.filter(is_manual) else {
            return Err(BlogError::unexpected(
                container,
                "a container without a throughput of its own",
            ));
        };
        let throughput = Throughput::Manual(ru_per_second);
        if offer.throughput != throughput {
            self.unmetered().set_throughput(&offer, throughput).await?;
        }
        Ok(())
    }

    /// Returns the sizes of the physical partitions of a container. The list is empty if the server
    /// does not tell.
    ///
    /// # Errors
    /// Every error of a request.
    pub async fn partition_sizes(&self, container: &str) -> Result<Vec<PartitionSize>, BlogError> {
        let answer = self.unmetered().read_container(container, true).await?;
        let resource: Value = answer.json()?;
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
}
