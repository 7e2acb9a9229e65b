//! The tests of the engine through its public interface, one module for each subject.
//!
//! All are one test binary, because each binary links the engine's libraries again. The tests of
//! the module `queries` are run alone with `cargo test -p orrery-engine --test engine queries::`.

mod support;

mod access_paths;
mod account_versions;
mod approximate;
mod background_work;
mod batches;
mod charges;
mod copied_stores;
mod crashes;
mod cross_partition;
mod delete_by_key;
mod epk_ranges;
mod feeds_over_ranges;
mod golden;
mod hashed_keys;
mod indexing_directives;
mod key_limit;
mod large_definitions;
mod memory;
mod merged_feeds;
mod ownership;
mod ownership_ends;
mod paging;
mod patches;
mod pending_refusals;
mod previous_images;
mod queries;
mod query_metrics;
mod read_many;
mod refused_commits;
mod scripts;
mod search_entries;
mod search_indexes;
mod snapshots;
mod splits;
mod throughput;
mod throughput_settings;
mod throughput_splits;
mod traffic;
mod unknown_outcomes;
mod value_scans;
mod verify;
mod versions;
mod writes;
mod wrong_clock;
