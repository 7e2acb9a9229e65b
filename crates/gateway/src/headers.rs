//! Request headers: one table of everything we know, and what each makes of a request.
//!
//! Reading a request's headers fills an [`RequestHeaders`]. A header in the table either has its effect, is a hint that changes
//! nothing here (its text says why), or is refused with 400 if its value asks for what we do not offer. Headers that
//! are not in the table are ignored, as the service does.

mod table;
mod value;

pub use table::{Header, known_headers};

use crate::options::Consistency;
use http::HeaderMap;
use orrery_engine::request::{AdmissionOptions, ReadOptions, Throughput};
use orrery_model::limits;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::{Error, Result};

/// What the headers of a request ask for.
#[derive(Debug, Default)]
pub(crate) struct RequestHeaders {
    // Which operation.
    pub(crate) plan: bool,
    pub(crate) batch: bool,
    pub(crate) batch_atomic: bool,
    pub(crate) batch_continue_on_error: bool,
    pub(crate) query: bool,
    pub(crate) upsert: bool,
    pub(crate) content: Content,
    pub(crate) change_feed: Option<FeedMode>,
    pub(crate) versions_format: bool,
    /// Whether text is not among the formats that the client reads.
    pub(crate) reads_no_text: bool,
    /// The format that an old client demands.
    pub(crate) format: Option<Format>,
    // Which part of a container.
    pub(crate) partition_key: Option<PartitionKey>,
    pub(crate) range: Option<RangeName>,
    pub(crate) start_epk: Option<Epk>,
    pub(crate) end_epk: Option<Epk>,
    pub(crate) intended_container: Option<String>,
    // How much.
    pub(crate) max_items: MaxItems,
    pub(crate) continuation: Option<String>,
    pub(crate) continuation_limit_kb: Option<usize>,
    // Queries.
    pub(crate) cross_partition: bool,
    pub(crate) query_metrics: bool,
    pub(crate) explain: bool,
    pub(crate) explain_charge: bool,
    pub(crate) query_advice: bool,
    pub(crate) index_metrics: Option<IndexMetrics>,
    pub(crate) single_range: bool,
    pub(crate) query_features: String,
    // Conditions.
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
    pub(crate) if_modified_since: Option<i64>,
    // Consistency.
    pub(crate) account: Option<Consistency>,
    pub(crate) consistency: Option<Consistency>,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) session: Option<String>,
    // Writes.
    pub(crate) pre_trigger: Option<String>,
    pub(crate) post_trigger: Option<String>,
    pub(crate) excluded_triggers: Vec<String>,
    pub(crate) leave_out_of_index: bool,
    pub(crate) minimal: bool,
    // Containers and offers.
    pub(crate) manual_throughput: Option<Throughput>,
    pub(crate) autoscale: Option<Throughput>,
    pub(crate) to_autoscale: bool,
    pub(crate) to_manual: bool,
    pub(crate) quota: bool,
    pub(crate) statistics: bool,
    // Scripts.
    pub(crate) script_logging: bool,
    // How it is admitted.
    pub(crate) admission: AdmissionOptions,
    // Permissions.
    pub(crate) token_seconds: Option<u64>,
}

/// What the body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// JSON, or nothing said.
    #[default]
    Json,
    /// A query as JSON.
    Query,
    /// A query as bare text.
    Sql,
}

/// How a body is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    JsonText,
    CosmosBinary,
    HybridRow,
}

/// What a change feed shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedMode {
    /// The latest version of each item.
    LatestVersion,
    /// Every version, and deletions.
    AllVersions,
}

/// How many rows a page may hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MaxItems {
    /// Not said.
    #[default]
    Default,
    /// As many as fit.
    ServerChooses,
    /// So many.
    AtMost(usize),
}

impl MaxItems {
    /// FeedKind at most; `None` for as many as fit.
    pub(crate) fn limit(self) -> Option<usize> {
        match self {
            MaxItems::Default => Some(limits::PAGE_ITEMS_DEFAULT),
            MaxItems::ServerChooses => None,
            MaxItems::AtMost(n) => Some(n),
        }
    }
}

/// A partition key range as a client names it: `0` or `containerRid,0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeName {
    pub(crate) container: Option<String>,
    /// `None` for a number that no range can have.
    pub(crate) id: Option<u32>,
}

/// How the index metrics are to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexMetrics {
    Base64,
    PercentEncoded,
}

/// `x-ms-cosmos-read-consistency-strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Eventual,
    Session,
    LatestCommitted,
    GlobalStrong,
}

impl RequestHeaders {
    /// Reads all headers of a request to an account whose level is `account`.
    ///
    /// # Errors
    /// 400 for a known header with a value that has no meaning or asks for what is not offered.
    pub(crate) fn parse(sent: &HeaderMap, account: Consistency) -> Result<Self> {
        let mut headers = RequestHeaders::default();
        for (name, value) in sent {
            let Some(header) = table::find(name.as_str()) else {
                continue;
            };
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Error::bad(format!("The value of the header '{name}' is not UTF-8.")))?
                .trim();
            // An empty value is no value, but the start of the hash space is the empty text.
            if !text.is_empty() || header.name == "x-ms-start-epk" {
                (header.read)(
                    &mut headers,
                    &value::Value {
                        name: header.name,
                        text,
                    },
                )?;
            }
        }
        headers.account = Some(account);
        headers.check_together(account)?;
        headers.admission.two_replicas = headers.asks_two_replicas();
        Ok(headers)
    }

    fn check_together(&mut self, account: Consistency) -> Result<()> {
        if self.consistency.is_some() && self.strategy.is_some() {
            return Err(Error::bad(
                "The headers 'x-ms-consistency-level' and 'x-ms-cosmos-read-consistency-strategy' cannot be sent \
                 together.",
            ));
        }
        if let Some(level) = self.consistency.filter(|level| *level < account) {
            return Err(Error::bad(format!(
                "ConsistencyLevel {} specified in the request is invalid when service is configured with consistency \
                 level {}. Ensure the request consistency level is not stronger than the service consistency level.",
                level.name(),
                account.name()
            )));
        }
        if self.strategy == Some(Strategy::GlobalStrong) && account != Consistency::Strong {
            return Err(Error::bad(format!(
                "The read consistency strategy GlobalStrong is invalid when service is configured with consistency \
                 level {}.",
                account.name()
            )));
        }
        if self.change_feed == Some(FeedMode::AllVersions) && !self.versions_format {
            return Err(Error::unsupported(
                "A change feed in the mode All Versions and Deletes in another form than that of \
                 'x-ms-cosmos-changefeed-wire-format-version: 2021-09-15'",
            ));
        }
        if self.manual_throughput.is_some() && self.autoscale.is_some() {
            return Err(Error::bad(
                "Manual throughput (x-ms-offer-throughput) and autoscale (x-ms-cosmos-offer-autopilot-settings) \
                 cannot be asked for together.",
            ));
        }
        if self.to_autoscale && self.to_manual {
            return Err(Error::bad(
                "The headers 'x-ms-cosmos-migrate-offer-to-autopilot' and \
                 'x-ms-cosmos-migrate-offer-to-manual-throughput' cannot be sent together.",
            ));
        }
        let excluded = std::mem::take(&mut self.excluded_triggers);
        for trigger in [&mut self.pre_trigger, &mut self.post_trigger] {
            trigger.take_if(|name| excluded.contains(name));
        }
        Ok(())
    }

    /// Throughput as asked for at creation.
    pub(crate) fn throughput(&self) -> Option<Throughput> {
        self.manual_throughput.or(self.autoscale)
    }

    /// The session token, unless less than session consistency is wanted: by the request, or else by the account.
    pub(crate) fn session(&self) -> Option<&str> {
        let level = self
            .consistency
            .or(self.account)
            .unwrap_or(Consistency::Session);
        let weak = match self.strategy {
            Some(strategy) => strategy == Strategy::Eventual,
            None => level > Consistency::Session,
        };
        if weak { None } else { self.session.as_deref() }
    }

    /// Whether reads are of the level at which the service asks two replicas.
    fn asks_two_replicas(&self) -> bool {
        match self.strategy {
            Some(strategy) => {
                matches!(strategy, Strategy::LatestCommitted | Strategy::GlobalStrong)
            }
            None => self
                .consistency
                .or(self.account)
                .is_some_and(|level| level <= Consistency::BoundedStaleness),
        }
    }

    /// How a read is done.
    pub(crate) fn reading(&self) -> ReadOptions<'_> {
        ReadOptions {
            session: self.session(),
            admission: self.admission,
        }
    }

    /// Whether a query is to be answered in anything but text. Only queries are ever answered so: for feeds and single
    /// resources the service ignores both headers.
    pub(crate) fn wants_binary(&self) -> bool {
        self.format
            .map_or(self.reads_no_text, |format| format != Format::JsonText)
    }
}

#[cfg(test)]
mod tests;
