//! Frames and tokens of direct mode: RNTBD, the protocol over TCP of the service's clients.
//!
//! A frame is a head and, if the head says so, a payload; numbers are little-endian.
//!
//! ```text
//! request    u32 length   u16 resource   u16 operation   16 bytes activity id   tokens
//! answer     u32 length   u32 status                     16 bytes activity id   tokens
//! token      u16 id   u8 type   value
//! payload    u32 length   bytes           only behind a head with PayloadPresent 1
//! ```
//!
//! The length of a head counts itself and all tokens, and not the payload. The first frame of a
//! connection, the *context*, has resource 0 and operation 0; its ids have a table of their own,
//! and so have the ids of its answer.
//!
//! [`head_length`] and [`RequestHead`] read what a client sends, [`FrameWriter`] writes the answer,
//! and [`tokens`] has the tables: for each id the name, the type, and the HTTP header that the
//! token stands for. [`AnswerHead`] reads answers, for clients and tests.
//!
//! Promises: a reader returns an error for bytes that are no frame, and never panics; it holds
//! references into the head and no memory in proportion to a length that a client states; errors
//! name a token and never its value, which can be a signature. Left out: connections, payloads,
//! limits of a connection, and what a request means.
//!
//! Sources: the public sources of the clients for Java (azure-cosmos 4.81) and .NET (branch
//! `msdata/direct`), and frames that the clients sent.

mod error;
mod guid;
mod head;
mod token;
pub mod tokens;
mod writer;

pub use error::{FrameError, Place};
pub use guid::{guid_bytes, guid_text};
pub use head::{AnswerHead, HEAD_BYTES_MIN, RequestHead, TOKENS_MAX, head_length};
pub use token::{Form, Token, Type, Value};
pub use writer::FrameWriter;
