//! The translation of a reply of the gateway into a frame. The values of headers come from the
//! table of tokens; the rest are fields of the reply.

use super::{FrameAnswer, FrameRequest};
use crate::reply::{Reply, SCHEMA_VERSION, error_list, retry_after_ms};
use bytes::Bytes;
use orrery_engine::request::Position;
use orrery_rntbd::tokens::answer as tokens;
use orrery_rntbd::{FrameWriter, Token};

/// The largest payload that is copied behind its head, so that both leave in one piece.
const COPIED_BYTES: usize = 16 * 1024 - 1024;
/// The LSN of answers about no container: what is above containers has no history that clients
/// could wait for.
const METADATA_LSN: u64 = 1;

/// Writes the answer to a request. `position` is that of the reply, or the present one of the
/// partition that the request is about.
pub(super) fn write(
    reply: &Reply,
    position: Option<Position>,
    request: &FrameRequest,
) -> FrameAnswer {
    let body = match &reply.error {
        Some(error) => Bytes::from(error_list(error)),
        None if matches!(reply.status, 204 | 304) => Bytes::new(),
        None => reply.body.clone(),
    };
    let is_head = request.head.method == http::Method::HEAD;
    let body = if is_head { Bytes::new() } else { body };

    // Clients drop an answer without its number, so the number comes first.
    let mut frame = FrameWriter::answer(u32::from(reply.status), request.activity_id);
    frame.number(&tokens::TRANSPORT_REQUEST_ID, u64::from(request.number));
    frame.number(&tokens::PAYLOAD_PRESENT, u64::from(!body.is_empty()));
    write_position(&mut frame, reply, position);
    frame.double(&tokens::REQUEST_CHARGE, reply.charge.as_ru());
    frame.text(&tokens::SCHEMA_VERSION, SCHEMA_VERSION);
    write_owner(&mut frame, reply);
    if let Some(error) = &reply.error {
        if error.sub_status() != 0 {
            frame.number(&tokens::SUB_STATUS, u64::from(error.sub_status()));
        }
        if let Some(milliseconds) = retry_after_ms(error) {
            frame.number(&tokens::RETRY_AFTER_MILLISECONDS, milliseconds);
        }
    }
    write_headers(&mut frame, reply);

    // A small payload leaves with its head; a large one is not copied.
    let (copied, payload) = match body.len() <= COPIED_BYTES {
        true => (body, Bytes::new()),
        false => (Bytes::new(), body),
    };
    let head = match payload.len() {
        0 => frame.finish(&copied),
        length => {
            let mut head = frame.finish(&[]);
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            head.extend_from_slice(&length.to_le_bytes());
            head
        }
    };
    FrameAnswer {
        head: head.into(),
        payload,
        status: reply.status,
    }
}

/// Writes the LSNs that clients compare between replicas, and the session token, whose range
/// stands in a token of its own.
fn write_position(frame: &mut FrameWriter, reply: &Reply, position: Option<Position>) {
    let lsn = position.map_or(METADATA_LSN, |position| position.lsn);
    for token in [
        &tokens::LSN,
        &tokens::LOCAL_LSN,
        &tokens::QUORUM_ACKED_LSN,
        &tokens::QUORUM_ACKED_LOCAL_LSN,
        &tokens::GLOBAL_COMMITTED_LSN,
    ] {
        frame.number(token, lsn);
    }
    frame.number(&tokens::CURRENT_WRITE_QUORUM, 1);
    frame.number(&tokens::CURRENT_REPLICA_SET_SIZE, 1);
    let Some(position) = position else {
        return;
    };
    if let Some(item_lsn) = position.item_lsn {
        frame.number(&tokens::ITEM_LSN, item_lsn);
        frame.number(&tokens::ITEM_LOCAL_LSN, item_lsn);
    }
    frame.text(&tokens::SESSION_TOKEN, &reply.session(position));
    frame.text(
        &tokens::PARTITION_KEY_RANGE_ID,
        &position.range_id.to_string(),
    );
}

/// Writes the resource that contains the addressed one, under whose names clients keep sessions.
fn write_owner(frame: &mut FrameWriter, reply: &Reply) {
    let Some(owner) = &reply.owner else {
        return;
    };
    frame.text(&tokens::OWNER_FULL_NAME, &owner.path);
    if reply.names_owner_rid() {
        frame.text(&tokens::OWNER_ID, &owner.rid.to_string());
    }
}

/// Writes the headers of a reply. A text that is too long for its token is left out: metrics and
/// logs may be, continuations and etags never are.
fn write_headers(frame: &mut FrameWriter, reply: &Reply) {
    for (name, value) in &reply.headers {
        if let (Some(token), Ok(text)) = (token_of(name.as_str()), value.to_str()) {
            frame.header(token, text);
        }
    }
}

/// Returns the token that stands for a header of a reply.
fn token_of(name: &str) -> Option<&'static Token> {
    tokens::TABLE.iter().find(|token| match &token.header {
        Some((header, _)) => *header == name,
        None => false,
    })
}
