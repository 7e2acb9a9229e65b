//! The messages inside frames, and their encoding: fields in order, numbers little-endian, texts
//! and lists with their length in front, one byte for the kind of a message.
//!
//! Decoding trusts no byte: every length is checked against the bytes that are there, and bytes
//! left over are an error.

use crate::calls::{
    DocumentLink, HostCall, HostFailure, HostReply, IndexAction, Operation, TriggerTime,
};
use crate::error::ScriptError;

/// The error of bytes that are not a whole message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A value with an encoding in bytes.
pub(crate) trait Wire: Sized {
    /// Appends the encoded value.
    fn encode(&self, to: &mut Vec<u8>);
    /// Decodes a value and advances the slice behind it.
    fn decode(from: &mut &[u8]) -> Result<Self, Malformed>;

    /// Returns the value as the payload of a frame.
    fn to_bytes(&self) -> Vec<u8> {
        let mut to = Vec::new();
        self.encode(&mut to);
        to
    }

    /// Decodes the payload of a frame, which must hold the value and nothing else.
    fn from_bytes(mut from: &[u8]) -> Result<Self, Malformed> {
        let value = Self::decode(&mut from)?;
        if from.is_empty() {
            Ok(value)
        } else {
            Err(Malformed)
        }
    }
}

/// Returns the next `count` bytes and advances the slice behind them.
fn take_bytes<'a>(from: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (front, rest) = from.split_at_checked(count).ok_or(Malformed)?;
    *from = rest;
    Ok(front)
}

/// Implements [`Wire`] for integers: little-endian.
macro_rules! wire_numbers {
    ($($number:ty),*) => { $(
        impl Wire for $number {
            fn encode(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn decode(from: &mut &[u8]) -> Result<Self, Malformed> {
                let bytes = take_bytes(from, size_of::<$number>())?;
                Ok(<$number>::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?))
            }
        }
    )* };
}

wire_numbers!(u8, u16, u32, u64, i64);

impl Wire for bool {
    fn encode(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }
    fn decode(from: &mut &[u8]) -> Result<Self, Malformed> {
        match u8::decode(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

/// The most elements of one list; above the largest page that a script may request.
const LIST_LENGTH_MAX: usize = 1 << 20;

/// Encodes a length in 32 bits. A longer list or text is longer than a frame and refused there.
fn encode_length(length: usize, to: &mut Vec<u8>) {
    u32::try_from(length).unwrap_or(u32::MAX).encode(to);
}

impl Wire for String {
    fn encode(&self, to: &mut Vec<u8>) {
        encode_length(self.len(), to);
        to.extend_from_slice(self.as_bytes());
    }
    fn decode(from: &mut &[u8]) -> Result<Self, Malformed> {
        let length = u32::decode(from)? as usize;
        String::from_utf8(take_bytes(from, length)?.to_vec()).map_err(|_| Malformed)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn encode(&self, to: &mut Vec<u8>) {
        self.is_some().encode(to);
        if let Some(value) = self {
            value.encode(to);
        }
    }
    fn decode(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(if bool::decode(from)? {
            Some(T::decode(from)?)
        } else {
            None
        })
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn encode(&self, to: &mut Vec<u8>) {
        encode_length(self.len(), to);
        for value in self {
            value.encode(to);
        }
    }
    fn decode(from: &mut &[u8]) -> Result<Self, Malformed> {
        let length = u32::decode(from)? as usize;
        // Every element takes at least one byte of the payload, hence the first bound. An element
        // in memory is larger than that, hence the second.
        if length > from.len() || length > LIST_LENGTH_MAX {
            return Err(Malformed);
        }
        let mut list = Vec::new();
        for _ in 0..length {
            list.push(T::decode(from)?);
        }
        Ok(list)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn encode(&self, to: &mut Vec<u8>) {
        self.0.encode(to);
        self.1.encode(to);
    }
    fn decode(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok((A::decode(from)?, B::decode(from)?))
    }
}

/// Implements [`Wire`] for a struct: its fields in order.
macro_rules! wire_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl Wire for $name {
            fn encode(&self, to: &mut Vec<u8>) {
                $( self.$field.encode(to); )*
            }
            fn decode(from: &mut &[u8]) -> Result<Self, Malformed> {
                Ok(Self { $( $field: Wire::decode(from)?, )* })
            }
        }
    };
}

/// Implements [`Wire`] for an enum: a byte for the variant, then its fields in order.
macro_rules! wire_enum {
    ($name:ident {
        $( $tag:literal => $variant:ident $( ( $inner:ident ) )? $( { $($field:ident),* } )? ),*
        $(,)?
    }) => {
        impl Wire for $name {
            fn encode(&self, to: &mut Vec<u8>) {
                match self {
                    $( Self::$variant $( ( $inner ) )? $( { $($field),* } )? => {
                        to.push($tag);
                        $( $inner.encode(to); )?
                        $( $( $field.encode(to); )* )?
                    } )*
                }
            }
            fn decode(from: &mut &[u8]) -> Result<Self, Malformed> {
                match u8::decode(from)? {
                    $( $tag => Ok(Self::$variant
                        $( ({ let $inner = Wire::decode(from)?; $inner }) )?
                        $( { $( $field: Wire::decode(from)? ),* } )? ), )*
                    _ => Err(Malformed),
                }
            }
        }
    };
}

/// The bounds of every execution in one child process. See [`PoolOptions`](crate::PoolOptions).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) time_ms: u64,
    pub(crate) accept_ms: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) stack_bytes: u64,
    pub(crate) jobs: u64,
}

/// One execution of a procedure or a trigger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) role: Role,
    pub(crate) self_link: String,
    pub(crate) alt_link: String,
    pub(crate) quota_current: String,
    pub(crate) quota_maximum: String,
    pub(crate) logging: bool,
    pub(crate) now_ms: i64,
    pub(crate) seed: u64,
}

/// The part of a job that differs between procedures and triggers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Role {
    Procedure {
        arguments: String,
    },
    Trigger {
        time: TriggerTime,
        operation: Operation,
        request: Option<String>,
        response: Option<String>,
    },
}

/// A message from the parent to the child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToHost {
    /// Sets the limits; the first message, without an answer.
    Hello(Limits),
    /// Runs a job. Answered by any number of [`FromHost::Call`] and one [`FromHost::Done`] or
    /// [`FromHost::Failed`].
    Run(Job),
    /// Compiles functions (name, source). Answered by [`FromHost::Ready`] or [`FromHost::Failed`].
    Functions {
        sources: Vec<(String, String)>,
        now_ms: i64,
        seed: u64,
    },
    /// Calls a function once for each row. Answered by [`FromHost::Values`] or
    /// [`FromHost::Failed`].
    Batch {
        name: String,
        rows: Vec<Vec<Option<String>>>,
    },
    /// Answers a call with success.
    Reply(HostReply),
    /// Answers a call with a refusal.
    Refusal(HostFailure),
}

/// A message from the child to the parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromHost {
    /// Requests an operation of the collection. Answered by [`ToHost::Reply`] or
    /// [`ToHost::Refusal`].
    Call(HostCall),
    /// The job ended.
    Done {
        body: Option<String>,
        log: Option<String>,
        ticks: u64,
    },
    /// The functions are compiled.
    Ready,
    /// The function was called: one value for each row.
    Values {
        values: Vec<Option<String>>,
        ticks: u64,
    },
    /// The job, the compilation or the batch failed.
    Failed(ScriptError),
}

wire_struct!(Limits {
    time_ms,
    accept_ms,
    memory_bytes,
    stack_bytes,
    jobs
});
wire_struct!(Job {
    id,
    source,
    role,
    self_link,
    alt_link,
    quota_current,
    quota_maximum,
    logging,
    now_ms,
    seed
});
wire_struct!(HostReply {
    items,
    continuation,
    not_modified
});
wire_struct!(HostFailure {
    number,
    message,
    body
});
wire_enum!(Role {
    0 => Procedure { arguments },
    1 => Trigger { time, operation, request, response },
});
wire_enum!(TriggerTime { 0 => Pre, 1 => Post });
wire_enum!(Operation { 0 => Create, 1 => Replace, 2 => Upsert, 3 => Delete, 4 => Patch });
wire_enum!(IndexAction { 0 => Default, 1 => Include, 2 => Exclude });
wire_enum!(DocumentLink { 0 => Id(id), 1 => Rid(rid) });
wire_enum!(HostCall {
    0 => Read { link, if_none_match },
    1 => ReadFeed { page_size, continuation },
    2 => Query {
        text, parameters, page_size, continuation, enable_scan, enable_low_precision_order_by
    },
    3 => Create { body, index },
    4 => Upsert { body, index },
    5 => Replace { link, body, if_match, index },
    6 => Delete { link, if_match },
    7 => Patch { link, spec, if_match, filter_predicate },
});
wire_enum!(ScriptError {
    0 => Compile { message },
    1 => Thrown { number, message, stack },
    2 => UnhandledHostFailure { number, message },
    3 => BadArguments(reason),
    4 => UnknownFunction(name),
    5 => TimedOut,
    6 => OutOfMemory,
    7 => TooDeep,
    8 => TooLarge(what),
    9 => HostDied(reason),
    10 => HostNotStarted(reason),
    11 => Busy,
    12 => Evicted,
});
wire_enum!(ToHost {
    0 => Hello(limits),
    1 => Run(job),
    2 => Functions { sources, now_ms, seed },
    3 => Batch { name, rows },
    4 => Reply(reply),
    5 => Refusal(failure),
});
wire_enum!(FromHost {
    0 => Call(call),
    1 => Done { body, log, ticks },
    2 => Ready,
    3 => Values { values, ticks },
    4 => Failed(error),
});

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<FromHost> {
        let link = DocumentLink::Id("héllo".into());
        vec![
            FromHost::Call(HostCall::Read {
                link: link.clone(),
                if_none_match: Some("\"1\"".into()),
            }),
            FromHost::Call(HostCall::Replace {
                link,
                body: "{}".into(),
                if_match: None,
                index: IndexAction::Exclude,
            }),
            FromHost::Done {
                body: Some("\"\"".into()),
                log: None,
                ticks: u64::MAX,
            },
            FromHost::Values {
                values: vec![None, Some("1".into())],
                ticks: 3,
            },
            FromHost::Failed(ScriptError::Thrown {
                number: Some(-1),
                message: "m".into(),
                stack: String::new(),
            }),
        ]
    }

    #[test]
    fn messages_come_back_as_they_were_sent() {
        for message in samples() {
            assert_eq!(FromHost::from_bytes(&message.to_bytes()), Ok(message));
        }
    }

    #[test]
    fn truncated_extended_and_altered_messages_are_refused_or_decoded_without_harm() {
        for message in samples() {
            let bytes = message.to_bytes();
            for cut in 0..bytes.len() {
                assert_eq!(FromHost::from_bytes(&bytes[..cut]), Err(Malformed));
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert_eq!(FromHost::from_bytes(&longer), Err(Malformed));
            for at in 0..bytes.len() {
                let mut altered = bytes.clone();
                altered[at] ^= 0xff;
                // An altered message may decode to another message, but decoding must end without a
                // panic.
                assert_ne!(FromHost::from_bytes(&altered), Ok(message.clone()));
            }
        }
    }

    #[test]
    fn a_list_of_too_many_elements_is_refused() {
        let values = vec![None; LIST_LENGTH_MAX + 1];
        assert_eq!(
            FromHost::from_bytes(&FromHost::Values { values, ticks: 0 }.to_bytes()),
            Err(Malformed)
        );
        let values = vec![None; LIST_LENGTH_MAX];
        let message = FromHost::Values { values, ticks: 0 };
        assert_eq!(FromHost::from_bytes(&message.to_bytes()), Ok(message));
    }
}
