//! A container in memory that is just complete enough for scripts, and short functions that run
//! scripts on it.

use std::collections::BTreeMap;

use orrery_script::{
    Ambient, ContainerLinks, DocumentLink, Host, HostCall, HostCommand, HostFailure, HostReply,
    Operation, PoolOptions, Procedure, ProcedureOutcome, Quota, ScriptError, ScriptPool, Trigger,
    TriggerOutcome, TriggerTime,
};

pub(crate) const LINKS: ContainerLinks<'_> = ContainerLinks {
    self_link: "dbs/AAAAAA==/colls/AAAAAJAAAAA=/",
    alt_link: "dbs/d/colls/c",
};
pub(crate) const QUOTA: Quota<'_> = Quota {
    current: "documentSize=0;documentsSize=1;collectionSize=1;",
    maximum: "documentSize=10;collectionSize=10;",
};
pub(crate) const AMBIENT: Ambient = Ambient {
    now_ms: 1_700_000_000_000,
    seed: 42,
};

/// Returns a pool of the test program's processes, with bounds too wide to be reached by chance.
pub(crate) fn pool() -> ScriptPool {
    ScriptPool::new(options())
}

/// Returns the options of `pool`.
pub(crate) fn options() -> PoolOptions {
    let command = HostCommand {
        program: env!("CARGO_BIN_EXE_orrery-script-host").into(),
        arguments: Vec::new(),
    };
    PoolOptions {
        max_processes: 1,
        time_ms: 20_000,
        accept_ms: 16_000,
        grace_ms: 500,
        ..PoolOptions::new(command)
    }
}

/// A host with items by id, which records all calls.
#[derive(Default)]
pub(crate) struct Memory {
    pub items: BTreeMap<String, String>,
    pub etags: BTreeMap<String, u32>,
    pub calls: Vec<HostCall>,
    /// The number of writes so far. The ETag of an item is the number of its last write.
    pub writes: u32,
}

impl Memory {
    pub(crate) fn with(items: &[(&str, &str)]) -> Self {
        let mut memory = Self::default();
        for (id, text) in items {
            memory.put((*id).into(), (*text).into());
        }
        memory
    }

    /// Returns a host with `count` items: `{"id":"000","n":0}` and so on.
    pub(crate) fn numbered(count: usize) -> Self {
        let mut memory = Self::default();
        for n in 0..count {
            memory.put(format!("{n:03}"), format!(r#"{{"id":"{n:03}","n":{n}}}"#));
        }
        memory
    }

    fn put(&mut self, id: String, text: String) -> HostReply {
        self.writes += 1;
        self.etags.insert(id.clone(), self.writes);
        self.items.insert(id, text.clone());
        HostReply {
            items: vec![text],
            ..HostReply::default()
        }
    }

    fn id_of(&self, link: DocumentLink) -> Result<String, HostFailure> {
        let id = match link {
            DocumentLink::Id(id) => id,
            // In this host the resource id of an item is the letter R and the id.
            DocumentLink::Rid(rid) => rid.trim_start_matches('R').to_string(),
        };
        if self.items.contains_key(&id) {
            Ok(id)
        } else {
            Err(failure(404, "Resource Not Found"))
        }
    }

    /// Refuses a write whose ETag is not that of the item.
    fn check_etag(&self, id: &str, if_match: Option<String>) -> Result<(), HostFailure> {
        match if_match {
            Some(etag) if etag != self.etags[id].to_string() => Err(failure(412, "precondition")),
            _ => Ok(()),
        }
    }

    /// Returns a page of all items. The continuation is `at` and the index of the next item.
    fn page(&self, page_size: u32, continuation: Option<String>) -> HostReply {
        let start = continuation.map_or(0, |text| text.trim_start_matches("at ").parse().unwrap());
        let end = (start + page_size as usize).min(self.items.len());
        let items = self.items.values().skip(start).take(end - start);
        HostReply {
            items: items.cloned().collect(),
            continuation: (end < self.items.len()).then(|| format!("at {end}")),
            not_modified: false,
        }
    }
}

/// Returns a refusal.
pub(crate) fn failure(number: u16, message: &str) -> HostFailure {
    HostFailure {
        number,
        message: message.into(),
        body: format!(r#"{{"code":{number}}}"#),
    }
}

/// Returns the value of `"id":"…"` in a JSON text of the tests.
pub(crate) fn id_in(body: &str) -> Option<String> {
    let (_, rest) = body.split_once(r#""id":""#)?;
    Some(rest.split_once('"')?.0.to_string())
}

impl Host for Memory {
    fn call(&mut self, call: HostCall) -> Result<HostReply, HostFailure> {
        self.calls.push(call.clone());
        match call {
            HostCall::Read {
                link,
                if_none_match,
            } => {
                let id = self.id_of(link)?;
                let is_unchanged =
                    if_none_match.is_some_and(|etag| etag == self.etags[&id].to_string());
                let items = if is_unchanged {
                    vec![]
                } else {
                    vec![self.items[&id].clone()]
                };
                Ok(HostReply {
                    items,
                    continuation: None,
                    not_modified: is_unchanged,
                })
            }
            HostCall::ReadFeed {
                page_size,
                continuation,
            }
            | HostCall::Query {
                page_size,
                continuation,
                ..
            } => Ok(self.page(page_size, continuation)),
            HostCall::Create { body, .. } => {
                let id = id_in(&body).ok_or_else(|| failure(400, "no id"))?;
                if self.items.contains_key(&id) {
                    return Err(failure(
                        409,
                        "Resource with specified id or name already exists.",
                    ));
                }
                Ok(self.put(id, body))
            }
            HostCall::Upsert { body, .. } => {
                let id = id_in(&body).ok_or_else(|| failure(400, "no id"))?;
                Ok(self.put(id, body))
            }
            HostCall::Replace {
                link,
                body,
                if_match,
                ..
            } => {
                let id = self.id_of(link)?;
                self.check_etag(&id, if_match)?;
                Ok(self.put(id, body))
            }
            HostCall::Delete { link, if_match } => {
                let id = self.id_of(link)?;
                self.check_etag(&id, if_match)?;
                self.items.remove(&id);
                Ok(HostReply::default())
            }
            HostCall::Patch { link, if_match, .. } => {
                let id = self.id_of(link)?;
                self.check_etag(&id, if_match)?;
                Ok(HostReply {
                    items: vec![self.items[&id].clone()],
                    ..HostReply::default()
                })
            }
        }
    }
}

/// Returns a call of a procedure with the log.
pub(crate) fn procedure<'a>(body: &'a str, arguments: &'a str) -> Procedure<'a> {
    Procedure {
        id: "p",
        body,
        arguments: arguments.as_bytes(),
        links: LINKS,
        quota: QUOTA,
        logging: true,
        ambient: AMBIENT,
    }
}

/// Runs a procedure on a host.
pub(crate) fn run_on(
    pool: &ScriptPool,
    body: &str,
    arguments: &str,
    host: &mut Memory,
) -> Result<ProcedureOutcome, ScriptError> {
    pool.run_procedure(procedure(body, arguments), host)
}

/// Checks the response body of a procedure on an empty container.
#[track_caller]
pub(crate) fn check(pool: &ScriptPool, body: &str, arguments: &str, expected: &str) {
    check_on(pool, body, arguments, &mut Memory::default(), expected);
}

/// Checks the response body of a procedure on a host.
#[track_caller]
pub(crate) fn check_on(
    pool: &ScriptPool,
    body: &str,
    arguments: &str,
    host: &mut Memory,
    expected: &str,
) {
    match run_on(pool, body, arguments, host) {
        Ok(outcome) => assert_eq!(outcome.body, expected),
        Err(error) => panic!("{error}\n{error:?}"),
    }
}

/// Returns the source of a procedure whose main function is these statements. They may use `coll`,
/// `self`, `alt`, `res` and `put`.
pub(crate) fn main_of(statements: &str) -> String {
    format!(
        "function main(a, b, c) {{ \
         const coll = getContext().getCollection(), res = getContext().getResponse(), \
         self = coll.getSelfLink(), alt = coll.getAltLink(); \
         const put = (value) => res.setBody(value);\n{statements}\n}}"
    )
}

/// Returns a call of a trigger of a create.
pub(crate) fn trigger<'a>(
    body: &'a str,
    time: TriggerTime,
    request: Option<&'a str>,
    response: Option<&'a str>,
) -> Trigger<'a> {
    Trigger {
        id: "t",
        body,
        time,
        operation: Operation::Create,
        request,
        response,
        links: LINKS,
        quota: QUOTA,
        logging: false,
        ambient: AMBIENT,
    }
}

/// Runs a trigger on an empty container.
pub(crate) fn run_trigger(
    pool: &ScriptPool,
    call: Trigger<'_>,
) -> Result<TriggerOutcome, ScriptError> {
    pool.run_trigger(call, &mut Memory::default())
}
