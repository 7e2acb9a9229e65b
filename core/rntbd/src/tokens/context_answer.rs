//! Tokens of the answer to the context.

use crate::token::{Token, Type};

table! {
    /// The version of this format: 1.
    PROTOCOL_VERSION = 0x0000, "ProtocolVersion", ULong;
    /// The API version of the client's context.
    CLIENT_VERSION = 0x0001, "ClientVersion", SmallString;
    /// The name of the server. Clients require it.
    SERVER_AGENT = 0x0002, "ServerAgent", SmallString;
    /// The version of the server. Clients require it.
    SERVER_VERSION = 0x0003, "ServerVersion", SmallString;
    /// The time in seconds after which the server closes a silent connection.
    IDLE_TIMEOUT_IN_SECONDS = 0x0004, "IdleTimeoutInSeconds", ULong;
    /// The time in seconds after which the server closes a connection without a signed request.
    UNAUTHENTICATED_TIMEOUT_IN_SECONDS = 0x0005, "UnauthenticatedTimeoutInSeconds", ULong;
}
