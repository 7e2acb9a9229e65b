//! Tests of the quantiser, the codes and the graphs, with seeded vectors.

mod codes;
mod graph;
mod quantiser;
mod stored;
mod support;
