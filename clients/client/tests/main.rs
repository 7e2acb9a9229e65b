//! The tests of the client, one module for each subject.

mod fan_out;
