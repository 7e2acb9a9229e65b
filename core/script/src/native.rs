//! The native object on which the prelude builds: it sends operations to the parent and returns the
//! replies.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, Result};

use crate::calls::{DocumentLink, HostCall, HostFailure, HostReply, IndexAction};
use crate::channel::Channel;
use crate::frame::fits;
use crate::meter::Meter;
use crate::wire::{FromHost, ToHost, Wire};

/// Creates the object `{ call, accepts, ticks }` for the prelude.
pub(crate) fn native_object<'js>(
    ctx: &Ctx<'js>,
    channel: &Rc<RefCell<Channel>>,
    meter: &Rc<Meter>,
) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let channel = Rc::clone(channel);
    let call = Function::new(ctx.clone(), move |ctx: Ctx<'js>, request: Object<'js>| {
        let answer = call_host(&mut channel.borrow_mut(), host_call(&request)?);
        reply_object(ctx, answer)
    })?;
    native.set("call", call)?;
    let accepts_meter = Rc::clone(meter);
    let accepts = Function::new(ctx.clone(), move || accepts_meter.accepts_calls())?;
    native.set("accepts", accepts)?;
    let ticks_meter = Rc::clone(meter);
    let ticks = Function::new(ctx.clone(), move || ticks_meter.ticks() as f64)?;
    native.set("ticks", ticks)?;
    Ok(native)
}

/// Sends an operation to the parent and waits for the reply. Ends the process if the parent is
/// gone.
fn call_host(channel: &mut Channel, call: HostCall) -> std::result::Result<HostReply, HostFailure> {
    let payload = FromHost::Call(call).to_bytes();
    if !fits(payload.len()) {
        let message = format!("the operation is too large: {} bytes", payload.len());
        return Err(HostFailure {
            number: 413,
            message,
            body: String::new(),
        });
    }
    let answer = channel
        .send_payload(&payload)
        .and_then(|()| channel.receive());
    match answer {
        Some(ToHost::Reply(reply)) => Ok(reply),
        Some(ToHost::Refusal(failure)) => Err(failure),
        #[expect(
            clippy::disallowed_methods,
            reason = "the engine is gone, and native frames lie between here and `main`"
        )]
        _ => std::process::exit(0),
    }
}

/// Turns the answer into the object that the prelude reads: a failure has `number`, a reply has
/// not.
fn reply_object(
    ctx: Ctx<'_>,
    answer: std::result::Result<HostReply, HostFailure>,
) -> Result<Object<'_>> {
    let reply = Object::new(ctx)?;
    match answer {
        Ok(HostReply {
            items,
            continuation,
            not_modified,
        }) => {
            reply.set("items", format!("[{}]", items.join(",")))?;
            reply.set("notModified", not_modified)?;
            if let Some(continuation) = continuation {
                reply.set("continuation", continuation)?;
            }
        }
        Err(HostFailure {
            number,
            message,
            body,
        }) => {
            reply.set("number", number)?;
            reply.set("message", message)?;
            reply.set("body", body)?;
        }
    }
    Ok(reply)
}

/// Reads an operation out of the object that the prelude made.
fn host_call(request: &Object<'_>) -> Result<HostCall> {
    let op: String = request.get("op")?;
    Ok(match op.as_str() {
        "read" => HostCall::Read {
            link: link(request)?,
            if_none_match: request.get("match")?,
        },
        "feed" => HostCall::ReadFeed {
            page_size: request.get("pageSize")?,
            continuation: request.get("continuation")?,
        },
        "query" => HostCall::Query {
            text: request.get("text")?,
            parameters: request.get("parameters")?,
            page_size: request.get("pageSize")?,
            continuation: request.get("continuation")?,
            enable_scan: request.get("scan")?,
            enable_low_precision_order_by: request.get("lowPrecision")?,
        },
        "create" => HostCall::Create {
            body: request.get("text")?,
            index: index_action(request)?,
        },
        "upsert" => HostCall::Upsert {
            body: request.get("text")?,
            index: index_action(request)?,
        },
        "replace" => HostCall::Replace {
            link: link(request)?,
            body: request.get("text")?,
            if_match: request.get("match")?,
            index: index_action(request)?,
        },
        "delete" => HostCall::Delete {
            link: link(request)?,
            if_match: request.get("match")?,
        },
        "patch" => HostCall::Patch {
            link: link(request)?,
            spec: request.get("text")?,
            if_match: request.get("match")?,
            filter_predicate: request.get("filter")?,
        },
        _ => {
            return Err(rquickjs::Error::new_from_js_message(
                "string",
                "operation",
                op,
            ));
        }
    })
}

fn link(request: &Object<'_>) -> Result<DocumentLink> {
    let text: String = request.get("link")?;
    Ok(if request.get("byRid")? {
        DocumentLink::Rid(text)
    } else {
        DocumentLink::Id(text)
    })
}

fn index_action(request: &Object<'_>) -> Result<IndexAction> {
    let word: String = request.get("index")?;
    Ok(match word.as_str() {
        "include" => IndexAction::Include,
        "exclude" => IndexAction::Exclude,
        _ => IndexAction::Default,
    })
}
