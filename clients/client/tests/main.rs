//! Tests of the client against a server that answers from a script.

mod fan_out;
