//! Tests of frames and tokens.
