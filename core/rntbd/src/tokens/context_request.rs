//! Tokens of the context, the first frame of a connection.

use crate::token::{Token, Type};

table! {
    /// The version of this format: 1.
    PROTOCOL_VERSION = 0x0000, "ProtocolVersion", ULong;
    /// The API version of requests without [`super::request::CLIENT_VERSION`].
    CLIENT_VERSION = 0x0001, "ClientVersion", SmallString;
    /// The name and version of the client.
    USER_AGENT = 0x0002, "UserAgent", SmallString;
    /// The kind of the caller: 0 for SDKs.
    CALLER_ID = 0x0003, "CallerId", Byte;
    /// 1 if the client sends requests before earlier ones are answered. The .NET client does so
    /// and states 0, so it has no effect.
    ENABLE_CHANNEL_MULTIPLEXING = 0x0004, "EnableChannelMultiplexing", Byte;
    /// The kind of TLS in which clients have certificates too. It has no effect.
    MUTUAL_TLS_AUTH_MODE = 0x0007, "MutualTlsAuthMode", Byte;
}
