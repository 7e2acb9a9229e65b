//! The one native object the prelude builds on: operations go to the parent and their replies come back.

use std::cell::RefCell;
use std::rc::Rc;

use rquickjs::{Ctx, Function, Object, Result};

use crate::calls::{DocumentLink, HostCall, HostFailure, HostReply, IndexAction};
use crate::frame::fits;
use crate::interpreter::Meter;
use crate::serve::Channel;
use crate::wire::{FromHost, ToHost, Wire};

/// `{ call, accepts, ticks }`, as the prelude wants it.
pub(crate) fn object<'js>(
    ctx: &Ctx<'js>,
    channel: &Rc<RefCell<Channel>>,
    meter: &Rc<Meter>,
) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    let channel = Rc::clone(channel);
    let call = move |ctx: Ctx<'js>, request: Object<'js>| {
        let answer = exchange(&mut channel.borrow_mut(), host_call(&request)?);
        reply_object(ctx, answer)
    };
    native.set("call", Function::new(ctx.clone(), call)?)?;
    let accepting = Rc::clone(meter);
    native.set(
        "accepts",
        Function::new(ctx.clone(), move || accepting.accepts())?,
    )?;
    let ticking = Rc::clone(meter);
    native.set(
        "ticks",
        Function::new(ctx.clone(), move || ticking.ticks() as f64)?,
    )?;
    Ok(native)
}

/// Asks the parent. Without a parent there is nobody left to work for.
fn exchange(channel: &mut Channel, call: HostCall) -> std::result::Result<HostReply, HostFailure> {
    let payload = FromHost::Call(call).to_bytes();
    if !fits(payload.len()) {
        let message = format!("the operation is too large: {} bytes", payload.len());
        return Err(HostFailure {
            number: 413,
            message,
            body: String::new(),
        });
    }
    match channel
        .send_payload(&payload)
        .and_then(|()| channel.receive())
    {
        Some(ToHost::Reply(reply)) => Ok(reply),
        Some(ToHost::Refusal(failure)) => Err(failure),
        #[expect(
            clippy::disallowed_methods,
            reason = "the engine is gone, and native frames lie between here and `main`"
        )]
        _ => std::process::exit(0),
    }
}

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
            index: index(request)?,
        },
        "upsert" => HostCall::Upsert {
            body: request.get("text")?,
            index: index(request)?,
        },
        "replace" => HostCall::Replace {
            link: link(request)?,
            body: request.get("text")?,
            if_match: request.get("match")?,
            index: index(request)?,
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

fn index(request: &Object<'_>) -> Result<IndexAction> {
    let word: String = request.get("index")?;
    Ok(match word.as_str() {
        "include" => IndexAction::Include,
        "exclude" => IndexAction::Exclude,
        _ => IndexAction::Default,
    })
}
