//! The data of a new blog.
//!
//! The state of the site records the seed, the scale and the time before the first item is created,
//! and each model when it is complete. The dates of the data are relative to that time, so a fill
//! that was interrupted continues with the same data.
//! A blog whose fill is over is served as it is, whatever its contents are by then.

use super::failure;
use crate::command::ServeArguments;
use orrery_blog::dataset::{ARTICLE_END, Dataset};
use orrery_blog::{BlogError, Client, Fill, FillState, Model, Site, Throughput, fill, on_stderr};
use orrery_model::world::World as _;
use orrery_server::{Failure, SystemWorld};
use std::io::{self, Write as _};
use std::sync::Arc;

/// Scale of a new blog: ten users.
const SCALE: f64 = 0.0001;
/// Seed of a new blog.
const SEED: u64 = 1;
/// RU/s of each container on another server, which may charge for them.
const ELSEWHERE_RU: u32 = 1_000;
/// RU/s of each container while a blog with less is filled. A new container has one physical
/// partition with up to this throughput.
const FILL_RU_MIN: u32 = 6_000;

/// Returns the RU/s of each container; `None` for those of the published figures.
pub(super) fn throughput_of(arguments: &ServeArguments) -> Option<u32> {
    match (arguments.throughput, &arguments.endpoint) {
        (None, Some(_)) => Some(ELSEWHERE_RU),
        (given, _) => given,
    }
}

/// Opens the site, creates it if it does not exist, and fills it as far as it is not filled.
///
/// # Errors
/// [`Failure::Usage`] if an interrupted fill was begun with other options; every error of a
/// request.
pub(super) async fn open(arguments: &ServeArguments, client: Client) -> Result<Site, Failure> {
    let ru = throughput_of(arguments);
    let throughput = match ru {
        Some(ru) => Throughput::of_each(ru.max(FILL_RU_MIN)),
        None => Throughput::default(),
    };
    let home = arguments.model.map_or(Model::V3, Model::from);
    let site = Site::open_or_create(
        client,
        &arguments.database,
        home,
        arguments.only,
        throughput,
    );
    let site = site.await.map_err(failure)?;
    let is_new = !is_filled(&site);
    if is_new {
        let begun = begin(arguments, &site).await?;
        fill_models(&site, begun).await.map_err(failure)?;
    }
    // The throughput of an existing blog changes only on demand.
    if let Some(ru) = ru
        && (is_new || arguments.throughput.is_some())
    {
        set_throughput(&site, ru).await.map_err(failure)?;
    }
    if !is_new {
        note_unused_options(arguments, &site);
    }
    Ok(site)
}

/// Returns true if the fill of a site is over.
fn is_filled(site: &Site) -> bool {
    site.fill()
        .is_some_and(|fill| fill.complete.len() == Model::ALL.len())
}

/// Returns the fill to continue, or records a new one.
async fn begin(arguments: &ServeArguments, site: &Site) -> Result<FillState, Failure> {
    if let Some(begun) = site.fill() {
        let other_scale = arguments.scale.is_some_and(|scale| scale != begun.scale);
        let other_seed = arguments.seed.is_some_and(|seed| seed != begun.seed);
        if begun.end.is_none() {
            return Err(Failure::Usage(
                "an earlier version of the program has partly filled the blog, with other texts: \
                 use another data directory or another --database"
                    .into(),
            ));
        }
        if other_scale || other_seed {
            return Err(Failure::Usage(format!(
                "the blog is partly filled, with --scale {} and --seed {}: start it with the same \
                 options, or use another data directory or another --database",
                begun.scale, begun.seed
            )));
        }
        return Ok(begun);
    }
    let begun = FillState {
        seed: arguments.seed.unwrap_or(SEED),
        scale: arguments.scale.unwrap_or(SCALE),
        end: Some((SystemWorld::new().now_ms() / 1_000) as i64),
        complete: Vec::new(),
    };
    site.set_fill(&begun).await.map_err(failure)?;
    Ok(begun)
}

/// Fills all present models, the home model first.
async fn fill_models(site: &Site, mut begun: FillState) -> Result<(), BlogError> {
    let end = begun.end.unwrap_or(ARTICLE_END);
    let data = Arc::new(Dataset::new(begun.seed, begun.scale)?.ending_at(end));
    let progress = on_stderr();
    let mut models = site.models();
    models.sort_by_key(|model| *model != site.home());
    for model in models {
        if begun.complete.contains(&model) {
            continue;
        }
        let blog = site.blog(model);
        fill(&blog, &data, Fill::default(), progress.as_ref()).await?;
        begun.complete.push(model);
        site.set_fill(&begun).await?;
    }
    // From now on the contents belong to the users, and migrations decide which models exist: no
    // model has to be filled any more.
    begun.complete = Model::ALL.to_vec();
    site.set_fill(&begun).await
}

/// Sets the throughput of all containers of all present models.
async fn set_throughput(site: &Site, ru: u32) -> Result<(), BlogError> {
    for model in site.models() {
        let blog = site.blog(model);
        for container in blog.containers() {
            blog.client().set_throughput(container, ru).await?;
        }
    }
    Ok(())
}

/// Says on standard error which options have no effect, because they are for a new blog.
fn note_unused_options(arguments: &ServeArguments, site: &Site) {
    let mut unused = Vec::new();
    let fill = site.fill();
    let is_same = |same: Option<bool>| same == Some(true);
    if let Some(scale) = arguments.scale
        && !is_same(fill.as_ref().map(|fill| fill.scale == scale))
    {
        unused.push("--scale");
    }
    if let Some(seed) = arguments.seed
        && !is_same(fill.as_ref().map(|fill| fill.seed == seed))
    {
        unused.push("--seed");
    }
    if let Some(model) = arguments.model
        && Model::from(model) != site.home()
    {
        unused.push("--model");
    }
    if arguments.only && site.models().len() > 1 {
        unused.push("--only");
    }
    if unused.is_empty() {
        return;
    }
    // If standard error is closed, the note is lost, which is no reason to stop.
    let _ = writeln!(
        io::stderr(),
        "orrery: the blog exists and is served as it is; without effect: {}; 'orrery blog migrate' \
         changes the model, and another --data-dir or --database has a new blog",
        unused.join(", ")
    );
}
