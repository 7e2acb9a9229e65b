//! Request headers: one table of all known headers, and their parsed values.
//!
//! Parsing the headers of a request fills a [`RequestHeaders`]. A header in the table has its
//! effect, or is a hint that changes nothing here (its row states the reason), or is refused with
//! 400 if its value asks for something that this server does not offer. Headers that are not in the
//! table are ignored, as in the service.

mod table;
mod value;

pub(crate) use table::is_known_version;
pub use table::{Header, known_headers};

use crate::account::Consistency;
use http::HeaderMap;
use orrery_engine::request::{AdmissionOptions, IndexingDirective, ReadOptions, Throughput};
use orrery_model::limits;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::{Error, Result};

/// The parsed headers of a request. A header that was not sent leaves the default of its field.
#[derive(Debug, Default)]
pub(crate) struct RequestHeaders {
    // The operation.
    pub(crate) is_query_plan: bool,
    pub(crate) is_batch: bool,
    pub(crate) is_atomic_batch: bool,
    pub(crate) continues_on_error: bool,
    pub(crate) is_query: bool,
    pub(crate) is_upsert: bool,
    pub(crate) content: Content,
    pub(crate) change_feed: Option<FeedMode>,
    /// True if the client reads the wire format in which all versions are sent.
    pub(crate) reads_versions_format: bool,
    /// True if the client names formats and JSON text is not among them.
    pub(crate) reads_no_text: bool,
    /// The format that an old client demands.
    pub(crate) format: Option<Format>,
    // The part of a container.
    pub(crate) partition_key: Option<PartitionKey>,
    pub(crate) range: Option<RangeName>,
    pub(crate) start_epk: Option<Epk>,
    pub(crate) end_epk: Option<Epk>,
    /// The resource id that the client expects of the container.
    pub(crate) intended_container: Option<String>,
    /// The resource id of the container that a client of the direct mode has read: no header.
    pub(crate) cached_container: Option<String>,
    // The page.
    pub(crate) max_items: MaxItems,
    pub(crate) continuation: Option<String>,
    /// The largest continuation, in KiB.
    pub(crate) continuation_limit_kb: Option<usize>,
    // Queries.
    pub(crate) allows_cross_partition: bool,
    /// True if the client wants to ask several physical partitions at a time.
    pub(crate) fans_out: bool,
    pub(crate) wants_query_metrics: bool,
    pub(crate) wants_explanation: bool,
    /// True if a request of the console counts among those of clients.
    pub(crate) counts_as_client: bool,
    pub(crate) wants_charge_parts: bool,
    pub(crate) wants_query_advice: bool,
    pub(crate) index_metrics: Option<IndexMetrics>,
    /// True if the client expects that one physical partition answers the query.
    pub(crate) is_single_range: bool,
    /// The merges that the client can do, if it names them.
    pub(crate) query_features: Option<String>,
    /// True if the version of the protocol has the plan of a query in the refusal of the query.
    pub(crate) takes_plan_from_refusal: bool,
    // Conditions.
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
    /// Seconds since 1970.
    pub(crate) if_modified_since: Option<i64>,
    // Consistency.
    /// The level of the account.
    pub(crate) account_consistency: Option<Consistency>,
    /// The level that the request asks for.
    pub(crate) consistency: Option<Consistency>,
    pub(crate) strategy: Option<Strategy>,
    pub(crate) session_token: Option<String>,
    /// True if the version of the protocol knows only the short form of session tokens.
    pub(crate) has_short_tokens: bool,
    /// True if the version of the protocol shows no key in containers without a partition key.
    pub(crate) hides_system_keys: bool,
    /// True if the version of the protocol shows the kinds of indexes of each included path.
    pub(crate) shows_index_kinds: bool,
    // Writes.
    pub(crate) pre_trigger: Option<String>,
    pub(crate) post_trigger: Option<String>,
    pub(crate) excluded_triggers: Vec<String>,
    pub(crate) indexing: IndexingDirective,
    /// True if the item is stored without `_self` and `_attachments`, or read so.
    pub(crate) leaves_out_links: bool,
    /// True if the client wants replies to writes without bodies.
    pub(crate) wants_minimal: bool,
    // Containers and offers.
    pub(crate) manual_throughput: Option<Throughput>,
    pub(crate) autoscale: Option<Throughput>,
    pub(crate) migrates_to_autoscale: bool,
    pub(crate) migrates_to_manual: bool,
    pub(crate) wants_quota: bool,
    pub(crate) wants_statistics: bool,
    // Scripts.
    pub(crate) wants_script_log: bool,
    // Admission.
    pub(crate) admission: AdmissionOptions,
    // Permissions.
    /// The lifetime of resource tokens, in seconds.
    pub(crate) token_seconds: Option<u64>,
}

/// The content type of the body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Content {
    /// JSON, or not stated.
    #[default]
    Json,
    /// A query as JSON.
    Query,
    /// A query as plain text.
    Sql,
}

/// The encoding of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    JsonText,
    CosmosBinary,
    HybridRow,
}

/// The content of a change feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeedMode {
    /// The latest version of each item.
    LatestVersion,
    /// Every version, and deletions.
    AllVersions,
}

/// The largest number of rows of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MaxItems {
    /// Not stated.
    #[default]
    Default,
    /// As many as fit.
    ServerChooses,
    /// This number.
    AtMost(usize),
}

impl MaxItems {
    /// Returns the number of rows; `None` for as many as fit.
    pub(crate) fn limit(self) -> Option<usize> {
        match self {
            MaxItems::Default => Some(limits::PAGE_ITEMS_DEFAULT),
            MaxItems::ServerChooses => None,
            MaxItems::AtMost(n) => Some(n),
        }
    }
}

/// A partition key range as the client names it: `0` or `containerRid,0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangeName {
    pub(crate) container: Option<String>,
    /// `None` for a number that is too large for a range.
    pub(crate) id: Option<u32>,
}

/// The versions of index metrics. Each has a form and an encoding of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexMetrics {
    /// Four lists, in base64.
    V1,
    /// The used and the potential indexes, percent-encoded.
    V2,
}

/// The values of `x-ms-cosmos-read-consistency-strategy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strategy {
    Eventual,
    Session,
    LatestCommitted,
    GlobalStrong,
}

impl RequestHeaders {
    /// Parses the headers of a request to an account with the consistency level `account`.
    ///
    /// # Errors
    /// 400 for a known header whose value is invalid or asks for something that is not offered.
    pub(crate) fn parse(sent: &HeaderMap, account: Consistency) -> Result<Box<Self>> {
        let mut headers = Box::<RequestHeaders>::default();
        for (name, value) in sent {
            let Some(header) = table::find(name.as_str()) else {
                continue;
            };
            let text = std::str::from_utf8(value.as_bytes())
                .map_err(|_| Error::bad(format!("The value of the header '{name}' is not UTF-8.")))?
                .trim();
            // An empty value counts as absent; but the EPK at the start of the hash space is the
            // empty text.
            if text.is_empty() && header.name != "x-ms-start-epk" {
                continue;
            }
            let value = value::Value {
                name: header.name,
                text,
            };
            (header.read)(&mut headers, &value)?;
        }
        headers.account_consistency = Some(account);
        // Clients send both, and the strategy is the newer one.
        if headers.strategy.is_some() {
            headers.consistency = None;
        }
        headers.check_combinations(account)?;
        headers.exclude_triggers();
        headers.admission.two_replicas = headers.asks_two_replicas();
        Ok(headers)
    }

    /// Checks what must hold between several headers.
    fn check_combinations(&self, account: Consistency) -> Result<()> {
        // Consistency.
        if let Some(level) = self.consistency.filter(|level| *level < account) {
            return Err(Error::bad(format!(
                "ConsistencyLevel {} specified in the request is invalid when service is \
                 configured with consistency \
                 level {}. Ensure the request consistency level is not stronger than the service \
                 consistency level.",
                level.name(),
                account.name()
            ))
            .with_help(
                "Leave the level out in the client, or start the server with --consistency.",
            ));
        }
        if self.strategy == Some(Strategy::GlobalStrong) && account != Consistency::Strong {
            return Err(Error::bad(format!(
                "The read consistency strategy GlobalStrong is invalid when service is configured \
                 with consistency \
                 level {}.",
                account.name()
            )));
        }

        // Change feeds.
        if self.change_feed == Some(FeedMode::AllVersions) && !self.reads_versions_format {
            return Err(Error::unsupported(
                "A change feed in the mode All Versions and Deletes in another form than that of \
                 'x-ms-cosmos-changefeed-wire-format-version: 2021-09-15'",
            ));
        }

        // Throughput.
        if self.manual_throughput.is_some() && self.autoscale.is_some() {
            return Err(Error::bad(
                "Manual throughput (x-ms-offer-throughput) and autoscale \
                 (x-ms-cosmos-offer-autopilot-settings) \
                 cannot be asked for together.",
            )
            .with_help("Give the client one of the two."));
        }
        if self.migrates_to_autoscale && self.migrates_to_manual {
            return Err(Error::bad(
                "The headers 'x-ms-cosmos-migrate-offer-to-autopilot' and \
                 'x-ms-cosmos-migrate-offer-to-manual-throughput' cannot be sent together.",
            ));
        }
        Ok(())
    }

    /// Removes the triggers that the request includes and excludes.
    fn exclude_triggers(&mut self) {
        let excluded = std::mem::take(&mut self.excluded_triggers);
        for trigger in [&mut self.pre_trigger, &mut self.post_trigger] {
            trigger.take_if(|name| excluded.contains(name));
        }
    }

    /// Returns true if the request names a trigger that is to run.
    pub(crate) fn names_trigger(&self) -> bool {
        self.pre_trigger.is_some() || self.post_trigger.is_some()
    }

    /// Returns the throughput of a new database or container.
    pub(crate) fn throughput(&self) -> Option<Throughput> {
        self.manual_throughput.or(self.autoscale)
    }

    /// Returns the session token, unless the request, or else the account, asks for less than
    /// session consistency.
    pub(crate) fn session(&self) -> Option<&str> {
        let level = self.consistency.or(self.account_consistency);
        let is_weaker = match (self.strategy, level) {
            (Some(strategy), _) => strategy == Strategy::Eventual,
            (None, Some(level)) => level > Consistency::Session,
            (None, None) => false,
        };
        if is_weaker {
            None
        } else {
            self.session_token.as_deref()
        }
    }

    /// Returns true if the service would ask two replicas for a read of this consistency.
    fn asks_two_replicas(&self) -> bool {
        let level = self.consistency.or(self.account_consistency);
        match (self.strategy, level) {
            (Some(strategy), _) => {
                matches!(strategy, Strategy::LatestCommitted | Strategy::GlobalStrong)
            }
            (None, Some(level)) => level <= Consistency::BoundedStaleness,
            (None, None) => false,
        }
    }

    /// Returns the engine's options for a read.
    pub(crate) fn read_options(&self) -> ReadOptions<'_> {
        ReadOptions {
            session: self.session(),
            admission: self.admission,
            leaves_out_links: self.leaves_out_links,
            cancel: None,
            answer: None,
        }
    }

    /// Returns true if the client wants the rows of a query in another format than JSON text. The
    /// service ignores the formats of other requests.
    pub(crate) fn wants_binary(&self) -> bool {
        match self.format {
            Some(format) => format != Format::JsonText,
            None => self.reads_no_text,
        }
    }
}

#[cfg(test)]
mod tests;
