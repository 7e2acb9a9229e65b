//! A session: messages in, answers out.
//!
//! Two lifecycles are known. Up to the version 2025-11-25 a client begins with `initialize`, which
//! agrees on a version for the session. From 2026-07-28 on every request names its version in
//! `_meta`, and `server/discover` lists the versions; results then say that they are complete and
//! how long they may be kept. The first request decides for none of them: each is judged alone.
//!
//! Requests that ask the endpoint run side by side, at most [`RUNNING_MAX`] of them, so that a
//! cancellation is read while a call runs. A cancelled request is not answered.

use super::account::{Account, ToolError};
use super::wire::{
    self, INVALID_PARAMS, INVALID_REQUEST, LINE_BYTES_MAX, Line, METHOD_NOT_FOUND, Members,
    Message, OVERLOADED, PARSE_ERROR, RESOURCE_NOT_FOUND, RpcError, UNSUPPORTED_VERSION,
};
use super::{Options, context, tools};
use orrery_client::Client;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// Versions that begin with `initialize`, the newest first.
const WITH_INITIALIZE: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Versions that every request names.
const IN_EACH_REQUEST: [&str; 1] = ["2026-07-28"];
/// Requests that run at the same time; further ones are refused.
const RUNNING_MAX: usize = 64;
/// Names of the members of `_meta` that a request of the newer lifecycle has.
const META: [&str; 3] = [
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/clientCapabilities",
];

/// Serves one session until the input ends; requests that run then are answered first.
///
/// `input` is read on a thread of its own, which may stay blocked after the return.
///
/// # Errors
/// The input cannot be read, or the output cannot be written.
pub async fn serve(
    client: Client,
    options: Options,
    input: impl BufRead + Send + 'static,
    mut output: impl Write,
) -> std::io::Result<()> {
    let mut lines = lines_of(input)?;
    let mut session = Session {
        account: Arc::new(Account::new(client, options)),
        version: None,
        running: JoinSet::new(),
        handles: HashMap::new(),
    };
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => {
                    if let Some(answer) = session.take(line?) {
                        write_line(&mut output, &answer)?;
                    }
                }
                None => break,
            },
            Some(done) = session.running.join_next() => {
                // A call that was cancelled or that panicked has no answer here.
                if let Ok((id, answer)) = done {
                    session.handles.remove(&id);
                    write_line(&mut output, &answer)?;
                }
            }
        }
    }
    while let Some(done) = session.running.join_next().await {
        if let Ok((_, answer)) = done {
            write_line(&mut output, &answer)?;
        }
    }
    Ok(())
}

fn write_line(output: &mut impl Write, line: &str) -> std::io::Result<()> {
    output.write_all(line.as_bytes())?;
    output.write_all(b"\n")?;
    output.flush()
}

type Lines = mpsc::Receiver<std::io::Result<Line>>;

/// Reads lines on a thread, because a read of standard input cannot be cancelled.
fn lines_of(mut input: impl BufRead + Send + 'static) -> std::io::Result<Lines> {
    let (sender, lines) = mpsc::channel(8);
    let read = move || {
        loop {
            let line = wire::read_line(&mut input).transpose();
            let Some(line) = line else { return };
            let is_end = line.is_err();
            if sender.blocking_send(line).is_err() || is_end {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("input".to_owned());
    thread.spawn(read)?;
    Ok(lines)
}

struct Session {
    account: Arc<Account>,
    /// The version that `initialize` agreed on.
    version: Option<&'static str>,
    /// Requests that ask the endpoint: the text of the id, and the line of the answer.
    running: JoinSet<(String, String)>,
    handles: HashMap<String, AbortHandle>,
}

impl Session {
    /// Handles one line. Returns the answer if it is there at once.
    fn take(&mut self, line: Line) -> Option<String> {
        let line = match line {
            Line::Text(line) if line.trim_ascii().is_empty() => return None,
            Line::Text(line) => line,
            Line::TooLong => {
                let text = format!("a line has more than {LINE_BYTES_MAX} bytes");
                return Some(wire::answer(None, Err(RpcError::new(PARSE_ERROR, text))));
            }
        };
        match wire::parse(&line) {
            Err((id, error)) => Some(wire::answer(id.as_deref(), Err(error))),
            Ok(Message::Answer) => None,
            Ok(Message::Notification { method, params }) => {
                if method == "notifications/cancelled" {
                    self.cancel(&params);
                }
                None
            }
            Ok(Message::Request { id, method, params }) => self.request(id, &method, params),
        }
    }

    fn cancel(&mut self, params: &Members) {
        let id = params.get("requestId").map(|id| id.get());
        if let Some(handle) = id.and_then(|id| self.handles.remove(id)) {
            handle.abort();
        }
    }

    fn request(&mut self, id: Box<RawValue>, method: &str, params: Members) -> Option<String> {
        let version = match self.version_of(method, &params) {
            Ok(version) => version,
            Err(error) => return Some(wire::answer(Some(&id), Err(error))),
        };
        let result = match method {
            "initialize" => Ok(self.initialize(&params)),
            "server/discover" => Ok(self.discover()),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(self.tools()),
            "resources/templates/list" => Ok(context::templates()),
            "prompts/list" => Ok(context::prompts()),
            "prompts/get" => prompt(&params),
            "tools/call" | "resources/list" | "resources/read" => {
                return self.start(id, method, version, params);
            }
            _ => Err(RpcError::new(
                METHOD_NOT_FOUND,
                format!("there is no method {method}"),
            )),
        };
        let result = result.map(|result| in_form_of(version, method, result).to_string());
        Some(wire::answer(Some(&id), result))
    }

    /// Returns the version of a request.
    fn version_of(&self, method: &str, params: &Members) -> Result<&'static str, RpcError> {
        let meta = params.get("_meta").map_or("{}", |meta| meta.get());
        let meta: Value = serde_json::from_str(meta).unwrap_or_default();
        let named = meta[META[0]].as_str();
        if method == "initialize" || (named.is_none() && method == "ping") {
            return Ok(self.version.unwrap_or(WITH_INITIALIZE[0]));
        }
        match named {
            Some(named) => {
                let known = IN_EACH_REQUEST.iter().find(|known| **known == named);
                let Some(version) = known else {
                    // A client of the older lifecycle may name its version too.
                    return self
                        .version
                        .filter(|v| *v == named)
                        .ok_or_else(|| RpcError {
                            data: Some(json!({"supported": versions(), "requested": named})),
                            ..RpcError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
                        });
                };
                match META.iter().find(|name| meta[**name].is_null()) {
                    None => Ok(version),
                    Some(name) => Err(RpcError::new(
                        INVALID_PARAMS,
                        format!("the request has no {name} in _meta"),
                    )),
                }
            }
            None if method == "server/discover" => Err(RpcError::new(
                INVALID_PARAMS,
                format!("the request has no {} in _meta", META[0]),
            )),
            None => self.version.ok_or_else(|| {
                RpcError::new(
                    INVALID_REQUEST,
                    "a session begins with initialize, or each request names its version in _meta",
                )
            }),
        }
    }

    /// Agrees on a version: the client's if it is known, else the newest.
    fn initialize(&mut self, params: &Members) -> Value {
        let asked = super::account::text(params, "protocolVersion")
            .ok()
            .flatten();
        let known = WITH_INITIALIZE
            .iter()
            .find(|known| Some(**known) == asked.as_deref());
        let version = known.copied().unwrap_or(WITH_INITIALIZE[0]);
        self.version = Some(version);
        json!({
            "protocolVersion": version,
            "capabilities": capabilities(),
            "serverInfo": server_info(),
            "instructions": self.instructions(),
        })
    }

    fn discover(&self) -> Value {
        json!({
            "supportedVersions": versions(),
            "capabilities": capabilities(),
            "instructions": self.instructions(),
            "_meta": {"io.modelcontextprotocol/serverInfo": server_info()},
        })
    }

    fn instructions(&self) -> String {
        let options = &self.account.options;
        let mut text = format!(
            "An account of the Azure Cosmos DB for NoSQL protocol at {}. A request costs request \
             units (RU). Call describe_container before you write a query, and prefer queries with \
             a partition key.",
            self.account.endpoint()
        );
        if let Some(database) = &options.database {
            let container = options.container.as_deref();
            let container = container.map(|c| format!("/{c}")).unwrap_or_default();
            text.push_str(&format!(
                " The session is limited to {database}{container}."
            ));
        }
        text.push_str(match options.allows_writes {
            true => " Tools that write are offered: ask the user before a destructive one.",
            false => " The session is read-only.",
        });
        if let Some(most) = options.max_charge {
            text.push_str(&format!(" The session may use {most} RU."));
        }
        text
    }

    fn tools(&self) -> Value {
        let listed = tools::offered(&self.account).map(|tool| tool.listed(&self.account));
        json!({"tools": listed.collect::<Vec<_>>()})
    }

    /// Starts a request that asks the endpoint.
    fn start(
        &mut self,
        id: Box<RawValue>,
        method: &str,
        version: &'static str,
        params: Members,
    ) -> Option<String> {
        let refuse = |error| Some(wire::answer(Some(&id), Err(error)));
        if self.handles.contains_key(id.get()) {
            let text = "a request with this id is running";
            return refuse(RpcError::new(INVALID_REQUEST, text));
        }
        if self.handles.len() >= RUNNING_MAX {
            let text = format!("{RUNNING_MAX} requests are running: wait for an answer");
            return refuse(RpcError::new(OVERLOADED, text));
        }
        let account = self.account.clone();
        let (key, method) = (id.get().to_owned(), method.to_owned());
        let answer = {
            let key = key.clone();
            async move {
                let turn_of = account.clone();
                let _turn = turn_of.turn().await;
                let result = match method.as_str() {
                    "tools/call" => call(account, version, params).await,
                    "resources/list" => listed(&account, version).await,
                    _ => read(&account, version, &params).await,
                };
                (key, wire::answer(Some(&id), result))
            }
        };
        let handle = self.running.spawn(answer);
        self.handles.insert(key, handle);
        None
    }
}

/// Calls a tool.
async fn call(
    account: Arc<Account>,
    version: &'static str,
    params: Members,
) -> Result<String, RpcError> {
    let name = super::account::needed_text(&params, "name").map_err(invalid)?;
    let Some(tool) = tools::offered(&account).find(|tool| tool.name == name) else {
        let is_write = tools::TOOLS.iter().any(|tool| tool.name == name);
        return Err(RpcError::new(
            INVALID_PARAMS,
            match is_write {
                true => format!(
                    "the session is read-only: {name} exists only if the server is started with \
                     --allow-writes"
                ),
                false => format!("there is no tool {name}"),
            },
        ));
    };
    let arguments: Option<Members> =
        super::account::typed(&params, "arguments", "an object").map_err(invalid)?;
    let arguments = arguments.unwrap_or_default();
    let outcome = match tool.check(&arguments) {
        Ok(()) => (tool.call)(account, arguments).await,
        Err(error) => Err(error),
    };
    let (text, is_error) = match &outcome {
        Ok(text) => (text.as_str(), false),
        Err(error) => (error.0.as_str(), true),
    };
    let mut result = json!({"content": [{"type": "text", "text": text}], "isError": is_error});
    result = in_form_of(version, "tools/call", result);
    let result = result.to_string();
    // The structured form is the same text, so that numbers keep their digits. Older versions do
    // not have it.
    Ok(match !is_error && version >= "2025-06-18" {
        true => format!("{{\"structuredContent\":{text},{}", &result[1..]),
        false => result,
    })
}

async fn listed(account: &Account, version: &'static str) -> Result<String, RpcError> {
    let found = context::resources(account).await.map_err(internal)?;
    Ok(in_form_of(version, "resources/list", found).to_string())
}

async fn read(
    account: &Account,
    version: &'static str,
    params: &Members,
) -> Result<String, RpcError> {
    let uri = super::account::needed_text(params, "uri").map_err(invalid)?;
    let code = match IN_EACH_REQUEST.contains(&version) {
        true => INVALID_PARAMS,
        false => RESOURCE_NOT_FOUND,
    };
    match context::read(account, &uri).await {
        None => Err(RpcError::new(code, format!("there is no resource {uri}"))),
        Some(Err(error)) => Err(RpcError::new(code, error.0)),
        Some(Ok(found)) => Ok(in_form_of(version, "resources/read", found).to_string()),
    }
}

fn prompt(params: &Members) -> Result<Value, RpcError> {
    let name = super::account::needed_text(params, "name").map_err(invalid)?;
    let arguments: Option<Members> =
        super::account::typed(params, "arguments", "an object").map_err(invalid)?;
    context::prompt(&name, &arguments.unwrap_or_default()).map_err(invalid)
}

fn invalid(error: ToolError) -> RpcError {
    RpcError::new(INVALID_PARAMS, error.0)
}

fn internal(error: ToolError) -> RpcError {
    RpcError::new(OVERLOADED, error.0)
}

/// Adds what the newer lifecycle demands of a result. Nothing may be kept: containers change.
fn in_form_of(version: &str, method: &str, mut result: Value) -> Value {
    if IN_EACH_REQUEST.contains(&version) {
        result["resultType"] = "complete".into();
        if !matches!(method, "tools/call" | "prompts/get" | "ping" | "initialize") {
            result["ttlMs"] = 0.into();
            result["cacheScope"] = "private".into();
        }
    }
    result
}

fn versions() -> Vec<&'static str> {
    let all = IN_EACH_REQUEST.iter().chain(&WITH_INITIALIZE);
    all.copied().collect()
}

fn capabilities() -> Value {
    json!({"tools": {}, "resources": {}, "prompts": {}})
}

fn server_info() -> Value {
    json!({"name": "orrery", "title": "Orrery", "version": env!("CARGO_PKG_VERSION")})
}
