//! Benchmark of searches: queries by vectors and words on containers with the types of vector index
//! and with a full-text index, beside a container without them, on disk, in this process; with
//! `--rivals` also beside other databases with the same data.
//!
//! | module | content |
//! |---|---|
//! | `data` | the texts and vectors, and the exact answers |
//! | `container` | the containers, and the costs of their loads |
//! | `answer` | an answer with its costs |
//! | `nearest` | the nearest vectors: times and recall of each type of index |
//! | `words` | searches for words |
//! | `http` | the same queries over HTTP |
//! | `rivals` | the same queries by other databases |
//! | `table` | the form of the output |
//!
//! The texts and vectors are those of `bench/search_data.py`: embeddings of real texts, since
//! generated vectors are easier to search. Texts that are not items are the queries.
//!
//! Promises: every answer of an exact search is compared with the exact one, which is computed
//! here; every answer of this database has distinct items that its filter keeps, the nearest first.

mod answer;
mod container;
mod data;
mod http;
mod nearest;
mod rivals;
mod table;
mod words;

use crate::{Result, temporary_directory};
use container::{Index, SearchContainer};
use data::{Data, SHARES, Truth};
use nearest::{Searches, Subjects};
use rivals::Rivals;
use std::path::PathBuf;
use std::time::Instant;

/// The inputs of a run.
#[derive(clap::Args)]
pub(crate) struct SearchArguments {
    /// Directory with the texts and vectors
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Number of items; the synthetic ones of the data follow the real ones
    #[arg(long, default_value_t = 100_000)]
    items: usize,
    /// Number of queries of each line
    #[arg(long, default_value_t = 200)]
    queries: usize,
    /// Containers of the run, named by the type of their index [default: all]
    #[arg(long, num_args = 1.., value_name = "TYPE")]
    index: Vec<Index>,
    /// Replace half of the vectors at the end, and search again
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    replace: bool,
    /// Measure PostgreSQL with pgvector and tsvector, and SQLite with FTS5, beside the containers
    #[arg(long)]
    rivals: bool,
    /// Python with the packages of bench/search_rivals.py
    #[arg(long, default_value = "python3", value_name = "PROGRAM")]
    python: PathBuf,
    /// Mebibytes of the cache of each container
    #[arg(long, default_value_t = 64, value_name = "N")]
    cache_mib: u64,
    /// Directory for the data while measuring [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Loads the containers and the rivals, measures each line and prints the tables.
pub(crate) fn run(arguments: SearchArguments) -> Result<()> {
    let SearchArguments { items, queries, .. } = arguments;
    if items < data::ITEMS_PER_KEY || queries == 0 {
        let least = data::ITEMS_PER_KEY;
        return Err(format!("a run needs a query and at least {least} items").into());
    }
    let mut data = Data::read(&arguments.data, items, queries)?;
    describe(&data);
    let directory = temporary_directory(arguments.directory)?;
    let indexes: Vec<Index> = match arguments.index.as_slice() {
        [] => Index::ALL.to_vec(),
        // In the order of the tables.
        chosen => Index::ALL
            .into_iter()
            .filter(|index| chosen.contains(index))
            .collect(),
    };
    let cache_bytes = arguments.cache_mib << 20;
    let mut containers = container::load(directory.path(), &indexes, cache_bytes, &data)?;
    let mut rivals = match arguments.rivals {
        true => Some(Rivals::start(
            &arguments.python,
            &arguments.data,
            directory.path(),
            &data,
        )?),
        false => None,
    };
    measure_vectors(&containers, rivals.as_mut(), &data)?;
    measure_words(&containers, rivals.as_mut(), &data)?;
    drop(rivals);
    if arguments.replace {
        containers.retain(|container| is_of_vectors(container.index));
        measure_replaced(&mut containers, &mut data)?;
    }
    Ok(())
}

fn describe(data: &Data) {
    println!(
        "{} items, of them {} synthetic, and {} queries, one at a time.\n\
         Lines of an index are calls of the engine in this process. Lines over HTTP and of\n\
         PostgreSQL include a socket; those of the rivals are measured in their Python driver.",
        data.items(),
        data.items() - data.real,
        data.query_count()
    );
}

fn is_of_vectors(index: Index) -> bool {
    !matches!(index, Index::None | Index::FullText)
}

/// Returns the exact answers. The time that they take is no result, but a long wait has a reason.
fn truth(data: &Data) -> Result<Truth> {
    let started = Instant::now();
    let truth = Truth::of(data)?;
    let seconds = started.elapsed().as_secs_f64();
    eprintln!("the exact answers took {seconds:.1} s");
    Ok(truth)
}

fn measure_vectors(
    containers: &[SearchContainer],
    rivals: Option<&mut Rivals>,
    data: &Data,
) -> Result<()> {
    if !containers.iter().any(|own| is_of_vectors(own.index)) {
        return Ok(());
    }
    let truth = truth(data)?;
    let mut subjects = Subjects {
        containers,
        rivals,
        data,
        truth: &truth,
    };
    for (share, percent) in SHARES.iter().enumerate() {
        match percent {
            100 => subjects.measure("nearest 10 of all", Searches::All, share)?,
            percent => {
                let title = format!("nearest 10 of the {percent} % of a filter");
                subjects.measure(&title, Searches::Filtered, share)?;
            }
        }
    }
    Ok(())
}

fn measure_words(
    containers: &[SearchContainer],
    rivals: Option<&mut Rivals>,
    data: &Data,
) -> Result<()> {
    let of = |index| containers.iter().find(|own| own.index == index);
    let Some(indexed) = of(Index::FullText) else {
        return Ok(());
    };
    words::measure(indexed, of(Index::None), data)?;
    match rivals {
        Some(rivals) => words::measure_rivals(indexed, rivals, data),
        None => Ok(()),
    }
}

/// Replaces half of the vectors of the containers and searches again.
fn measure_replaced(containers: &mut [SearchContainer], data: &mut Data) -> Result<()> {
    if containers.is_empty() {
        return Ok(());
    }
    let items = data.replace_half();
    container::replace(containers, &items, data)?;
    let truth = truth(data)?;
    let mut subjects = Subjects {
        containers,
        rivals: None,
        data,
        truth: &truth,
    };
    let title = "nearest 10 after the replacement";
    subjects.measure(title, Searches::AfterReplacement, data::ALL_ITEMS)
}
