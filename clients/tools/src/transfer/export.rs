//! Export: the items of a container, or the rows of a query, as one file.
//!
//! Each physical partition is read page by page into a segment, several at the same time. The
//! segments and a list of how far each has come stand in the folder `FILE.part`; an export that was
//! interrupted goes on from there. At the end the segments are written as one file, which gets its
//! name when it is complete. If a partition is split meanwhile, its segment is thrown away and its
//! successors are read from their beginning.
//!
//! The export is no snapshot. An item that does not change meanwhile is in the file once. Of an
//! item that changes, the old version or the new is there; an item that is created or deleted
//! meanwhile may or may not be.

use super::ending::TransferError;
use super::ledger::{CHECKPOINT_BYTES_MAX, write_whole};
use super::progress::{Progress, State};
use super::rows::{OutputFormat, assemble, push_line};
use orrery_client::files::read_bounded;
use orrery_client::{Client, ClientError, PartitionKeyRange, QueryText, Scope, container_link};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Items of one page at most.
const PAGE_ITEMS: usize = 1000;
/// Merges over partitions that the plan may name; those are done by the server or refused.
const FEATURES: &str = "Aggregate, CompositeAggregate, CountIf, DCount, Distinct, GroupBy, \
                        MultipleAggregates, MultipleOrderBy, NonStreamingOrderBy, \
                        NonValueAggregate, OffsetAndLimit, OrderBy, Top";

/// The options of an export.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// Database of the container.
    pub database: String,
    /// Container.
    pub container: String,
    /// File to write; `-` is standard output.
    pub output: PathBuf,
    /// Format; otherwise by the name of the file, or JSON lines.
    pub format: Option<OutputFormat>,
    /// Query whose rows are written; otherwise all items.
    pub query: Option<String>,
    /// True if `_rid`, `_self`, `_etag`, `_attachments` and `_ts` are written.
    pub system_properties: bool,
    /// Physical partitions that are read at the same time.
    pub parallel: usize,
    /// True if an existing file is replaced.
    pub overwrite: bool,
}

/// The result of an export.
#[derive(Debug, Clone)]
pub struct ExportSummary {
    /// Rows in the file.
    pub rows: u64,
    /// Request units of this run.
    pub charge: f64,
    /// Duration of this run.
    pub elapsed: Duration,
    /// Rows that an earlier run had read.
    pub resumed_rows: u64,
}

/// The state of an export on disk.
#[derive(Debug, Serialize, Deserialize)]
struct Progressed {
    version: u32,
    /// Text that identifies the export: a folder continues the same export only.
    export: String,
    segments: Vec<Segment>,
}

/// One segment.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Segment {
    /// Id of the partition key range; `None` for a query that the server merges.
    range: Option<String>,
    /// First hash of the range, by which segments are ordered.
    min: String,
    max: String,
    /// Position of the next page.
    continuation: Option<String>,
    is_complete: bool,
    bytes: u64,
    rows: u64,
}

impl Segment {
    fn of(range: &PartitionKeyRange) -> Self {
        Self {
            range: Some(range.id.clone()),
            min: range.min.clone(),
            max: range.max.clone(),
            continuation: None,
            is_complete: false,
            bytes: 0,
            rows: 0,
        }
    }

    fn file(&self, folder: &Path) -> PathBuf {
        let name = self.range.as_deref().unwrap_or("all");
        folder.join(format!("segment-{name}.jsonl"))
    }
}

/// Runs an export.
///
/// # Errors
/// [`TransferError`]; the folder `FILE.part` holds what was read until then.
pub async fn export(
    client: &Client,
    options: &ExportOptions,
    progress: &dyn Progress,
) -> Result<ExportSummary, TransferError> {
    let begin = Instant::now();
    let is_standard = options.output == Path::new("-");
    if !is_standard {
        check_output(&options.output, options.overwrite)?;
    }
    let format = options
        .format
        .or_else(|| OutputFormat::of_name(&options.output));
    let format = format.unwrap_or(OutputFormat::JsonLines);
    let client = client.with_user_agent("orrery-export");
    let container = container_link(&options.database, &options.container);
    let query = QueryText::new(options.query.as_deref().unwrap_or("SELECT * FROM c"));

    // Standard output cannot be continued: its segments are in a temporary folder.
    let temporary = match is_standard {
        true => Some(tempfile::tempdir().map_err(failed("temporary folder"))?),
        false => None,
    };
    let folder = match &temporary {
        Some(folder) => folder.path().to_owned(),
        None => with_suffix(&options.output, ".part"),
    };
    create_folder(&folder)?;
    let _claim = claim(&folder)?;
    let export = description(&client, &container, &query, options);
    let list = folder.join("progress.json");
    let mut progressed = match read_list(&list, &export)? {
        Some(progressed) => progressed,
        None => Progressed {
            version: 1,
            export,
            segments: segments(&client, &container, &query, options.query.is_some()).await?,
        },
    };
    let resumed_rows = progressed.segments.iter().map(|segment| segment.rows).sum();

    let total = match options.query {
        Some(_) => None,
        None => client.item_count(&container).await?,
    };
    progress.begin(total);
    let reader = Reader {
        client: client.clone(),
        container,
        query,
        folder: folder.clone(),
        system_properties: options.system_properties,
    };
    let read = read_all(&reader, &list, &mut progressed, options.parallel, progress).await;
    progress.end();
    let charge = read?;

    finish(&progressed, &folder, options, format, is_standard)?;
    Ok(ExportSummary {
        rows: progressed.segments.iter().map(|segment| segment.rows).sum(),
        charge,
        elapsed: begin.elapsed(),
        resumed_rows,
    })
}

/// Refuses an output whose replacement would destroy something else than an earlier output.
fn check_output(output: &Path, overwrite: bool) -> Result<(), TransferError> {
    let name = output.display();
    let Ok(facts) = std::fs::symlink_metadata(output) else {
        return Ok(());
    };
    if !facts.is_file() {
        return Err(TransferError::Usage(format!(
            "{name} exists and is no plain file, which an export could replace: name another file, \
             or - for standard output"
        )));
    }
    if !overwrite {
        return Err(TransferError::Usage(format!(
            "{name} exists: name another file, or add --overwrite"
        )));
    }
    Ok(())
}

/// The files of an export's folder, beside the segments and temporary files.
const FILES: [&str; 3] = ["lock", "progress.json", "whole"];

/// Creates the folder of an export, or takes the folder that an interrupted export left. A folder
/// with other content is refused, because the end of the export deletes the folder.
fn create_folder(folder: &Path) -> Result<(), TransferError> {
    let named = failed(&folder.display().to_string());
    if std::fs::symlink_metadata(folder).is_err() {
        return std::fs::create_dir_all(folder).map_err(named);
    }
    let mut is_own = !folder.is_symlink();
    for entry in std::fs::read_dir(folder).map_err(&named)? {
        let name = entry.map_err(&named)?.file_name();
        let name = name.to_string_lossy();
        let is_segment = name.starts_with("segment-") && name.ends_with(".jsonl");
        is_own &= is_segment || name.starts_with(".tmp") || FILES.contains(&name.as_ref());
    }
    if is_own {
        return Ok(());
    }
    Err(TransferError::Usage(format!(
        "{} is not the folder of an interrupted export: move it away, or name another output",
        folder.display()
    )))
}

/// Claims a folder for this process, until the returned file is closed.
fn claim(folder: &Path) -> Result<File, TransferError> {
    let path = folder.join("lock");
    let named = failed(&path.display().to_string());
    let lock = File::create(&path).map_err(&named)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(TransferError::Usage(format!(
            "another export writes to {}: wait for its end, or name another output",
            folder.display()
        ))),
        Err(TryLockError::Error(error)) => Err(named(error)),
    }
}

/// Returns the text that identifies an export for its folder.
fn description(
    client: &Client,
    container: &str,
    query: &QueryText,
    options: &ExportOptions,
) -> String {
    let endpoint = client.endpoint().trim_end_matches('/');
    format!(
        "{} of {endpoint}/{container}, system properties: {}",
        query.text, options.system_properties
    )
}

/// Writes the segments as one file, which gets its name when it is complete.
fn finish(
    progressed: &Progressed,
    folder: &Path,
    options: &ExportOptions,
    format: OutputFormat,
    is_standard: bool,
) -> Result<(), TransferError> {
    let mut ordered = progressed.segments.clone();
    ordered.sort_by(|a, b| a.min.cmp(&b.min));
    let files: Vec<PathBuf> = ordered.iter().map(|segment| segment.file(folder)).collect();
    if is_standard {
        let out: Box<dyn Write> = Box::new(std::io::stdout());
        assemble(&files, format, &options.output, out)?;
    } else {
        let whole = folder.join("whole");
        let named = failed(&options.output.display().to_string());
        let file = File::create(&whole).map_err(&named)?;
        assemble(&files, format, &options.output, Box::new(file))?;
        File::open(&whole)
            .and_then(|file| file.sync_all())
            .map_err(&named)?;
        std::fs::rename(&whole, &options.output).map_err(&named)?;
        std::fs::remove_dir_all(folder).map_err(&named)?;
    }
    Ok(())
}

fn failed(name: &str) -> impl Fn(std::io::Error) -> TransferError + use<> {
    let name = name.to_owned();
    move |e| TransferError::Failed(format!("{name}: {e}"))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Reads the list of an interrupted export, if there is one.
fn read_list(list: &Path, export: &str) -> Result<Option<Progressed>, TransferError> {
    if !list.exists() {
        return Ok(None);
    }
    let other = |cause: String| {
        TransferError::Usage(format!(
            "{}: {cause}; delete its folder to begin anew",
            list.display()
        ))
    };
    let text = read_bounded(list, CHECKPOINT_BYTES_MAX).map_err(|e| other(e.to_string()))?;
    let found: Progressed = serde_json::from_slice(&text).map_err(|e| other(e.to_string()))?;
    // An export whose rows are all read failed after that: its rows may be out of date.
    if found.segments.iter().all(|segment| segment.is_complete) {
        return Ok(None);
    }
    if found.version != 1 || found.export != export {
        return Err(other(format!(
            "it belongs to another export: {}",
            found.export
        )));
    }
    Ok(Some(found))
}

/// Returns the segments of a new export: one for each physical partition, or a single one for a
/// query whose rows have to be merged.
async fn segments(
    client: &Client,
    container: &str,
    query: &QueryText,
    is_query: bool,
) -> Result<Vec<Segment>, TransferError> {
    if is_query {
        let plan = client.query_plan(container, query, FEATURES).await;
        let plan = plan.map_err(|error| of_query(error, query))?;
        let plan: serde_json::Value = plan.json()?;
        if needs_merge(&plan["queryInfo"]) {
            return Ok(vec![Segment {
                range: None,
                min: String::new(),
                max: "FF".into(),
                continuation: None,
                is_complete: false,
                bytes: 0,
                rows: 0,
            }]);
        }
    }
    let ranges = client.fresh_ranges(container).await?;
    Ok(ranges.iter().map(Segment::of).collect())
}

/// Returns the failure of a request that carried the query.
fn of_query(error: ClientError, query: &QueryText) -> TransferError {
    match TransferError::from(error) {
        TransferError::Request { error, .. } => TransferError::Request {
            error,
            query: Some(query.text.clone()),
        },
        other => other,
    }
}

/// Returns true if the rows of the partitions cannot simply be written one after another.
fn needs_merge(info: &serde_json::Value) -> bool {
    let is_set = |name: &str| match &info[name] {
        serde_json::Value::Null | serde_json::Value::Bool(false) => false,
        serde_json::Value::String(text) => !text.is_empty() && text != "None",
        serde_json::Value::Array(list) => !list.is_empty(),
        serde_json::Value::Object(object) => !object.is_empty(),
        _ => true,
    };
    [
        "distinctType",
        "top",
        "offset",
        "limit",
        "orderBy",
        "groupByExpressions",
        "aggregates",
        "groupByAliasToAggregateType",
        "dCountInfo",
    ]
    .into_iter()
    .any(is_set)
}

/// Reads segments.
#[derive(Clone)]
struct Reader {
    client: Client,
    container: String,
    query: QueryText,
    folder: PathBuf,
    system_properties: bool,
}

/// The end of one page.
enum Page {
    Read {
        segment: Segment,
        charge: f64,
    },
    /// The range was split.
    Gone(Segment),
}

/// Reads all segments, `parallel` at the same time, and returns the request units.
async fn read_all(
    reader: &Reader,
    list: &Path,
    progressed: &mut Progressed,
    parallel: usize,
    progress: &dyn Progress,
) -> Result<f64, TransferError> {
    let mut waiting: VecDeque<Segment> = VecDeque::new();
    waiting.extend(
        progressed
            .segments
            .iter()
            .filter(|s| !s.is_complete)
            .cloned(),
    );
    let mut pages = JoinSet::new();
    let mut charge = 0.0;
    let mut saved = Instant::now();
    write_whole(list, progressed).map_err(failed("list of segments"))?;
    loop {
        while pages.len() < parallel.max(1)
            && let Some(segment) = waiting.pop_front()
        {
            let reader = reader.clone();
            pages.spawn(async move { reader.page(segment).await });
        }
        let Some(page) = pages.join_next().await else {
            break;
        };
        let page = page.map_err(|e| TransferError::Failed(format!("a reader stopped: {e}")))?;
        match page {
            Ok(Page::Read {
                segment,
                charge: ru,
            }) => {
                charge += ru;
                let known = progressed
                    .segments
                    .iter_mut()
                    .find(|s| s.range == segment.range);
                if let Some(known) = known {
                    *known = segment.clone();
                }
                if !segment.is_complete {
                    waiting.push_front(segment);
                }
            }
            Ok(Page::Gone(segment)) => {
                let successors = reader.successors(&segment, progressed).await?;
                progressed.segments.retain(|s| s.range != segment.range);
                progressed.segments.extend(successors.iter().cloned());
                waiting.extend(successors);
            }
            Err(e) => {
                write_whole(list, progressed).map_err(failed("list of segments"))?;
                return Err(e);
            }
        }
        if saved.elapsed() > Duration::from_secs(1) {
            write_whole(list, progressed).map_err(failed("list of segments"))?;
            saved = Instant::now();
        }
        report(progressed, charge, pages.len(), progress);
    }
    write_whole(list, progressed).map_err(failed("list of segments"))?;
    Ok(charge)
}

fn report(progressed: &Progressed, charge: f64, requests: usize, progress: &dyn Progress) {
    let rows = progressed.segments.iter().map(|segment| segment.rows).sum();
    progress.update(&State {
        done: rows,
        items: rows,
        charge,
        requests,
        ..State::default()
    });
}

impl Reader {
    /// Reads the next page of a segment.
    async fn page(&self, mut segment: Segment) -> Result<Page, TransferError> {
        let scope = match &segment.range {
            Some(range) => Scope::Range(range),
            None => Scope::Container,
        };
        let token = segment.continuation.as_deref();
        let page = self
            .client
            .query_page(
                &self.container,
                &self.query,
                scope,
                PAGE_ITEMS,
                token,
                Vec::new(),
            )
            .await;
        let page = match page {
            Ok(page) => page,
            Err(e) if e.is_range_gone() && segment.range.is_some() => {
                return Ok(Page::Gone(segment));
            }
            Err(e) => return Err(of_query(e, &self.query)),
        };
        let mut lines = Vec::new();
        for row in &page.rows {
            push_line(row, self.system_properties, &mut lines);
        }

        // What an interrupted run wrote after its last list is overwritten.
        let path = segment.file(&self.folder);
        let named = failed(&path.display().to_string());
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create(true)
            .open(&path)
            .map_err(&named)?;
        file.set_len(segment.bytes).map_err(&named)?;
        file.seek(SeekFrom::Start(segment.bytes)).map_err(&named)?;
        file.write_all(&lines).map_err(&named)?;
        segment.bytes += lines.len() as u64;
        segment.rows += page.rows.len() as u64;
        segment.is_complete = page.continuation.is_none();
        segment.continuation = page.continuation;
        Ok(Page::Read {
            segment,
            charge: page.answer.charge(),
        })
    }

    /// Returns the segments that take the place of one whose range was split or merged.
    async fn successors(
        &self,
        gone: &Segment,
        progressed: &Progressed,
    ) -> Result<Vec<Segment>, TransferError> {
        let ranges = self.client.fresh_ranges(&self.container).await?;
        let mut successors = Vec::new();
        for range in ranges.iter() {
            let overlaps = range.min < gone.max && gone.min < range.max;
            let is_inside = range.min >= gone.min && range.max <= gone.max;
            let is_known = progressed
                .segments
                .iter()
                .any(|s| s.range.as_ref() == Some(&range.id));
            if overlaps && !is_known {
                if !is_inside {
                    return Err(TransferError::Failed(
                        "physical partitions were merged during the export: delete the folder \
                         '.part' and begin anew"
                            .into(),
                    ));
                }
                successors.push(Segment::of(range));
            }
        }
        Ok(successors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_query_with_an_order_or_an_aggregate_needs_a_merge() {
        let plain = json!({"distinctType": "None", "top": null, "orderBy": [], "aggregates": []});
        assert!(!needs_merge(&plain));
        assert!(!needs_merge(&json!({})));
        assert!(needs_merge(&json!({"orderBy": ["Ascending"]})));
        assert!(needs_merge(&json!({"top": 3})));
        assert!(needs_merge(&json!({"distinctType": "Ordered"})));
        assert!(needs_merge(&json!({"aggregates": ["Count"]})));
    }
}
