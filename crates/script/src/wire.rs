//! The messages inside frames, and how each becomes bytes: fields in order, numbers little-endian, texts and lists
//! with their length in front, one byte for the kind of a message.
//!
//! Reading trusts nothing: every length is checked against the bytes that are there, and bytes left over are an error.

use crate::calls::{
    DocumentLink, HostCall, HostFailure, HostReply, IndexAction, Operation, TriggerTime,
};
use crate::error::ScriptError;

/// Bytes that are not the message they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// A thing with a form in bytes.
pub(crate) trait Wire: Sized {
    /// Appends it.
    fn put(&self, to: &mut Vec<u8>);
    /// Takes it off the front.
    fn take(from: &mut &[u8]) -> Result<Self, Malformed>;

    /// A whole payload.
    fn to_bytes(&self) -> Vec<u8> {
        let mut to = Vec::new();
        self.put(&mut to);
        to
    }

    /// A whole payload, with nothing behind it.
    fn from_bytes(mut from: &[u8]) -> Result<Self, Malformed> {
        let value = Self::take(&mut from)?;
        if from.is_empty() {
            Ok(value)
        } else {
            Err(Malformed)
        }
    }
}

fn take_bytes<'a>(from: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let (front, rest) = from.split_at_checked(count).ok_or(Malformed)?;
    *from = rest;
    Ok(front)
}

macro_rules! wire_numbers {
    ($($number:ty),*) => { $(
        impl Wire for $number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend_from_slice(&self.to_le_bytes());
            }
            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                let bytes = take_bytes(from, size_of::<$number>())?;
                Ok(<$number>::from_le_bytes(bytes.try_into().map_err(|_| Malformed)?))
            }
        }
    )* };
}

wire_numbers!(u8, u16, u32, u64, i64);

impl Wire for bool {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

/// Elements of one list; above the largest page a script may ask for.
const LIST_LENGTH_MAX: usize = 1 << 20;

/// Lengths are 32 bits wide; what would not fit is longer than a frame and refused there.
fn put_length(length: usize, to: &mut Vec<u8>) {
    u32::try_from(length).unwrap_or(u32::MAX).put(to);
}

impl Wire for String {
    fn put(&self, to: &mut Vec<u8>) {
        put_length(self.len(), to);
        to.extend_from_slice(self.as_bytes());
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let length = u32::take(from)? as usize;
        String::from_utf8(take_bytes(from, length)?.to_vec()).map_err(|_| Malformed)
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok(if bool::take(from)? {
            Some(T::take(from)?)
        } else {
            None
        })
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        put_length(self.len(), to);
        for value in self {
            value.put(to);
        }
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let length = u32::take(from)? as usize;
        // Every element takes a byte at least; but an empty one in memory is larger than that, hence the second bound.
        if length > from.len() || length > LIST_LENGTH_MAX {
            return Err(Malformed);
        }
        let mut list = Vec::new();
        for _ in 0..length {
            list.push(T::take(from)?);
        }
        Ok(list)
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }
    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

macro_rules! wire_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                $( self.$field.put(to); )*
            }
            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                Ok(Self { $( $field: Wire::take(from)?, )* })
            }
        }
    };
}

macro_rules! wire_enum {
    ($name:ident { $( $tag:literal => $variant:ident $( ( $inner:ident ) )? $( { $($field:ident),* } )? ),* $(,)? }) => {
        impl Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $( Self::$variant $( ( $inner ) )? $( { $($field),* } )? => {
                        to.push($tag);
                        $( $inner.put(to); )?
                        $( $( $field.put(to); )* )?
                    } )*
                }
            }
            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                match u8::take(from)? {
                    $( $tag => Ok(Self::$variant $( ({ let $inner = Wire::take(from)?; $inner }) )?
                        $( { $( $field: Wire::take(from)? ),* } )? ), )*
                    _ => Err(Malformed),
                }
            }
        }
    };
}

/// Bounds of every execution in one child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) time_ms: u64,
    pub(crate) accept_ms: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) stack_bytes: u64,
    pub(crate) jobs: u64,
}

/// What a procedure and a trigger have in common.
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

/// What they do not.
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

/// Parent to child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToHost {
    /// The first message.
    Hello(Limits),
    /// Run this; answered by any number of [`FromHost::Call`] and one [`FromHost::Done`] or [`FromHost::Failed`].
    Run(Job),
    /// Make these functions ready (name, source); answered by [`FromHost::Ready`] or [`FromHost::Failed`].
    Functions {
        sources: Vec<(String, String)>,
        now_ms: i64,
        seed: u64,
    },
    /// Call one for many rows; answered by [`FromHost::Values`] or [`FromHost::Failed`].
    Batch {
        name: String,
        rows: Vec<Vec<Option<String>>>,
    },
    /// The answer to a call.
    Reply(HostReply),
    /// The refusal of a call.
    Refusal(HostFailure),
}

/// Child to parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FromHost {
    Call(HostCall),
    Done {
        body: Option<String>,
        log: Option<String>,
        ticks: u64,
    },
    Ready,
    Values {
        values: Vec<Option<String>>,
        ticks: u64,
    },
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
wire_enum!(Role { 0 => Procedure { arguments }, 1 => Trigger { time, operation, request, response } });
wire_enum!(TriggerTime { 0 => Pre, 1 => Post });
wire_enum!(Operation { 0 => Create, 1 => Replace, 2 => Upsert, 3 => Delete, 4 => Patch });
wire_enum!(IndexAction { 0 => Default, 1 => Include, 2 => Exclude });
wire_enum!(DocumentLink { 0 => Id(id), 1 => Rid(rid) });
wire_enum!(HostCall {
    0 => Read { link, if_none_match },
    1 => ReadFeed { page_size, continuation },
    2 => Query { text, parameters, page_size, continuation, enable_scan, enable_low_precision_order_by },
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
    fn cut_lengthened_and_altered_messages_are_refused_or_read_without_harm() {
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
                // Either outcome is fine; what counts is that reading ends and does not panic.
                assert_ne!(FromHost::from_bytes(&altered), Ok(message.clone()));
            }
        }
    }

    #[test]
    fn a_list_of_very_many_nothings_is_refused() {
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
