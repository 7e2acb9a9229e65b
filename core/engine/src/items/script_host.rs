//! The calls that a stored procedure or trigger makes: each is answered by one operation in the
//! script's transaction, which covers one logical partition.

use crate::Engine;
use crate::catalog::Container;
use crate::errors::is_of_server;
use crate::items::fired_write::FiredWrite;
use crate::items::patch::CheckedPatch;
use crate::items::{CheckedOperation, CheckedWrite, UserFunctions, parse_body, parse_item, upsert};
use crate::partition::item::StoredItem;
use crate::partition::row_reader::number_of_rid;
use crate::partition::transaction::{ItemOptions, ReadView, Transaction};
use crate::query::{ListedRow, Workplace, environment, query_rows};
use crate::request::{Id, IndexingDirective, PageRequest, QueryRequest, etag_matches};
use orrery_model::json::parse;
use orrery_model::partition_key::{KeyAddress, PartitionKey};
use orrery_model::work::{QueryWork, Step};
use orrery_model::{Error, Json, Object, Result, Rid};
use orrery_script::{DocumentLink, Host, HostCall, HostFailure, HostReply, IndexAction};

/// The [`Host`] of one script execution: a transaction over one logical partition.
pub(super) struct ScriptHost<'a, 'w> {
    /// The engine, for user-defined functions in queries.
    pub engine: &'a Engine,
    /// The container.
    pub container: &'a Container,
    /// The partition key for which the script runs.
    pub key: PartitionKey,
    /// The logical partition of `key`.
    pub address: KeyAddress,
    /// The transaction with everything that the script changed.
    pub transaction: Transaction<'a>,
    /// The rows that the transaction sees below its own changes.
    pub view: ReadView<'w>,
    /// The write that fired the post-trigger which runs; queries do not see the write.
    pub fired: Option<FiredWrite>,
    /// The first failure of a call that was none of the script's making: the partition has gone to
    /// another owner, or the store does not answer. The request fails with this error, whatever the
    /// script makes of it, because a client repeats such a request, and no request that ends in an
    /// exception.
    pub failure_of_server: Option<Error>,
}

impl Host for ScriptHost<'_, '_> {
    fn call(&mut self, call: HostCall) -> std::result::Result<HostReply, HostFailure> {
        self.answer(call).map_err(|error| {
            let failure = HostFailure {
                number: error.status(),
                message: error.message().to_owned(),
                body: error.message().to_owned(),
            };
            if is_of_server(&error) {
                self.failure_of_server.get_or_insert(error);
            }
            failure
        })
    }
}

impl ScriptHost<'_, '_> {
    /// Returns the text of the item that a write is to delete, or `None` if the write deletes
    /// nothing.
    ///
    /// # Errors
    /// 404 if the item is missing.
    pub(crate) fn item_to_delete(&mut self, write: &CheckedWrite<'_>) -> Result<Option<String>> {
        let CheckedOperation::Delete { id } = &write.operation else {
            return Ok(None);
        };
        match write.find(&self.transaction, self.view, id)? {
            Some(stored) => Ok(Some(self.text_of(&stored))),
            None => {
                self.transaction.work.push(Step::ReadNothing);
                Err(Error::not_found())
            }
        }
    }

    #[expect(clippy::too_many_lines, reason = "an arm for each call")]
    fn answer(&mut self, call: HostCall) -> Result<HostReply> {
        match call {
            HostCall::Read {
                link,
                if_none_match,
            } => self.read(&link, if_none_match.as_deref()),

            // A feed is a query for everything.
            HostCall::ReadFeed {
                page_size,
                continuation,
            } => {
                let page = script_page(page_size, continuation);
                self.query(&QueryRequest::everything(&page))
            }

            // A path without an index is scanned and the order is always exact, so both options of
            // the call change nothing here.
            HostCall::Query {
                text,
                parameters,
                page_size,
                continuation,
                enable_scan: _,
                enable_low_precision_order_by: _,
            } => {
                let page = script_page(page_size, continuation);
                let parameters = read_parameters(&parameters)?;
                self.query(&QueryRequest::of(text, parameters, page))
            }

            HostCall::Create { body, index } => {
                let item = self.own_item(&body)?;
                let options = options(None, index);
                let stored = self
                    .transaction
                    .create(self.view, &self.key, &item, options)?;
                Ok(self.reply_with(&stored))
            }

            HostCall::Upsert { body, index } => {
                let item = self.own_item(&body)?;
                let options = options(None, index);
                let (stored, _) =
                    upsert(&mut self.transaction, self.view, &self.key, &item, options)?;
                Ok(self.reply_with(&stored))
            }

            HostCall::Replace {
                link,
                body,
                if_match,
                index,
            } => {
                // The link is looked up first: a missing item is the error, whatever the body says.
                let old = self.find(&link)?;
                let item = self.own_item(&body)?;
                let options = options(if_match.as_deref(), index);
                let stored = self
                    .transaction
                    .replace(self.view, &old, &self.key, &item, options)?;
                Ok(self.reply_with(&stored))
            }

            HostCall::Delete { link, if_match } => {
                let old = self.find(&link)?;
                self.transaction
                    .delete(self.view, &old, if_match.as_deref())?;
                Ok(HostReply::default())
            }

            HostCall::Patch {
                link,
                spec,
                if_match,
                filter_predicate,
            } => {
                let old = self.find(&link)?;
                let spec = parse_body(spec.as_bytes())?;
                let patch = CheckedPatch::read(self.container, &spec, filter_predicate.as_deref())?;
                let options = options(if_match.as_deref(), IndexAction::Default);
                let stored = self.transaction.patch(self.view, &old, &patch, options)?;
                Ok(self.reply_with(&stored))
            }
        }
    }

    fn read(&mut self, link: &DocumentLink, if_none_match: Option<&str>) -> Result<HostReply> {
        let stored = self.find(link)?;
        let etag = stored.row.etag_text();
        if if_none_match.is_some_and(|known| etag_matches(known, &etag)) {
            self.transaction.work.push(Step::ReadNothing);
            return Ok(HostReply {
                not_modified: true,
                ..HostReply::default()
            });
        }
        let bytes = stored.row.size();
        self.transaction.work.push(Step::Read { bytes });
        Ok(self.reply_with(&stored))
    }

    fn reply_with(&self, stored: &StoredItem) -> HostReply {
        HostReply {
            items: vec![self.text_of(stored)],
            ..HostReply::default()
        }
    }

    fn text_of(&self, stored: &StoredItem) -> String {
        let text = stored.row.text(self.container.rid(), stored.number);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Parses an item that a script writes.
    ///
    /// # Errors
    /// 400 for a text that is no item, and for an item of another logical partition.
    fn own_item(&self, body: &str) -> Result<Object> {
        let item = parse_item(body.as_bytes())?;
        let definition = self.container.partition_key();
        let key = definition.extract(&item)?;
        if !definition.is_same_key(&key, &self.key) {
            return Err(Error::bad(
                "Requests originating from scripts cannot reference partition keys other than the one for which client \
                 request was submitted.",
            )
            .with_help(format!(
                "The item has {} at {}: run the procedure with this partition key.",
                key.shown(),
                definition.shown_paths()
            )));
        }
        Ok(item)
    }

    /// Returns the item that a link names.
    ///
    /// # Errors
    /// 404 if the item is missing, 400 for a link of another container.
    fn find(&mut self, link: &DocumentLink) -> Result<StoredItem> {
        let id = match link {
            DocumentLink::Id(id) => Id::Name(id),
            DocumentLink::Rid(text) => {
                let rid = Rid::parse(text)
                    .filter(|rid| number_of_rid(self.container.rid(), *rid).is_some());
                Id::Rid(rid.ok_or_else(|| {
                    Error::bad(format!(
                        "The link names no item of this container: '{text}'."
                    ))
                })?)
            }
        };
        let found = self.transaction.find(self.view, &self.address, id)?;
        found.ok_or_else(|| {
            self.transaction.work.push(Step::ReadNothing);
            Error::not_found()
        })
    }

    /// Answers a page of a query over the logical partition as the transaction leaves it, without
    /// the write that fired the trigger.
    fn query(&mut self, request: &QueryRequest) -> Result<HostReply> {
        let container = self.container;
        let mut items = self.transaction.logical_partition(&self.address)?;
        if let Some(fired) = &self.fired {
            fired.undo(&mut items);
        }
        let mut rows = Vec::new();
        let policy = &container.policies().newest.1;
        for stored in items {
            // As for clients, queries see only the items that are indexed, if there is an index.
            let is_indexed = !policy.is_consistent() || policy.indexes(stored.row.indexing);
            if !is_indexed && !request.is_read_feed {
                continue;
            }
            rows.push(ListedRow {
                key: stored.number.to_be_bytes().to_vec(),
                text: stored.row.text(container.rid(), stored.number),
            });
        }
        let turn = self
            .engine
            .slots()
            .begin(Some(container.rid().database_part()), None);
        let mut functions = UserFunctions::new(self.engine, container, &turn);
        let mut work = orrery_sql::Work::default();
        let answer = query_rows(
            Workplace {
                engine: self.engine,
                turn: Some(&turn),
                answer: None,
                clock: None,
            },
            &[b"script", container.rid().as_bytes()].concat(),
            &environment(container),
            &rows,
            request,
            &mut functions,
            &mut work,
        )?;
        // The script's own partition is asked by one seek; the charge follows from what it
        // returned.
        let loaded_bytes = answer.rows.iter().map(|row| row.len() as u64).sum();
        self.transaction.work.push(Step::Query(QueryWork {
            seeks: 1,
            loaded_items: work.rows_out,
            loaded_bytes,
            returned_rows: work.rows_out,
            returned_bytes: work.bytes_out,
            projected_rows: work.projected,
            array_elements: work.tuples,
            aggregates: u64::from(work.has_aggregate),
            udf_calls: work.udf_calls,
            ..QueryWork::default()
        }));
        let mut items = Vec::with_capacity(answer.rows.len());
        for row in &answer.rows {
            items.push(String::from_utf8_lossy(row).into_owned());
        }
        Ok(HostReply {
            items,
            continuation: answer.continuation,
            not_modified: false,
        })
    }
}

fn script_page(page_size: u32, continuation: Option<String>) -> PageRequest {
    PageRequest {
        max_items: Some(page_size as usize),
        continuation,
        continuation_limit_kb: None,
    }
}

fn options(if_match: Option<&str>, index: IndexAction) -> ItemOptions<'_> {
    ItemOptions {
        if_match,
        indexing: match index {
            IndexAction::Default => IndexingDirective::Default,
            IndexAction::Include => IndexingDirective::Include,
            IndexAction::Exclude => IndexingDirective::Exclude,
        },
        leaves_out_links: false,
    }
}

/// Parses query parameters: a JSON array of objects with `name` and `value`.
fn read_parameters(text: &str) -> Result<Vec<(String, Json)>> {
    let bad = || Error::bad("The parameters of the query are not a list of names and values.");
    let json = parse(text.as_bytes()).map_err(|_| bad())?;
    let mut parameters = Vec::new();
    for parameter in json.as_array().ok_or_else(bad)? {
        let name = parameter.get("name").and_then(Json::as_str);
        let value = parameter.get("value");
        match (name, value) {
            (Some(name), Some(value)) => parameters.push((name.to_owned(), value.clone())),
            _ => return Err(bad()),
        }
    }
    Ok(parameters)
}
