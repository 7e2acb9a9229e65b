//! Tests of the quantisers, the codes and the graphs, with seeded vectors.

mod codes;
mod graph;
mod quantiser;
mod spherical;
mod stored;
mod support;
