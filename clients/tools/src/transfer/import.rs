//! Import: records of files, standard input or another container become items of a container.
//!
//! ```text
//! feed (a thread, or requests to the origin) ── records, checked ──▶ run ── bulk requests ──▶ send
//!                                                                     │
//!                                                                  ledger: counts, refused items,
//!                                                                          checkpoint
//! ```
//!
//! Promises: every record is counted, as created, replaced, existing or refused. An import that was
//! interrupted at any moment and goes on from its checkpoint has each item once. Two records of one
//! item are written in the order of the input. Memory is bounded, whatever the size of the input.
//! An import that ends at a refused record sends nothing of a later record from then on, and tells
//! the items that it wrote.

use super::ending::{Cause, Ended, TransferError, Written};
use super::feed::{Feed, Incoming};
use super::input::inputs;
use super::item::{Item, Rules};
use super::ledger::{Counts, Finished, Ledger};
use super::options::{ImportOptions, Mode, NewContainer};
use super::origin::Origin;
use super::pace::Pace;
use super::progress::{Progress, State};
use super::router::Router;
use super::send::{END_NONE, Sender, Sent, Verdict, is_of_existing_id};
use orrery_client::{Client, Throughput, container_link, database_link};
use orrery_model::json::parse;
use orrery_model::partition_key::Definition;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Bytes of the items of one bulk request; one larger item has a request of its own.
const REQUEST_BYTES: usize = 1 << 20;
/// Time after which a request is sent though it is not full.
const TICK: Duration = Duration::from_millis(20);
/// Time between two checkpoints.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// The result of an import.
#[derive(Debug, Clone)]
pub struct Summary {
    /// Counts of all runs of the import.
    pub counts: Counts,
    /// Records of this run.
    pub records_of_run: u64,
    /// Request units of this run.
    pub charge: f64,
    /// Duration of this run.
    pub elapsed: Duration,
    /// Throttled answers of this run.
    pub throttled: u64,
    /// The first refused records with their reasons.
    pub told: Vec<String>,
    /// True if an earlier run had finished the import.
    pub was_complete: bool,
}

/// Runs an import.
///
/// # Errors
/// [`TransferError`]; a checkpoint holds what was done until then.
pub async fn import(
    client: &Client,
    options: &ImportOptions,
    progress: &dyn Progress,
) -> Result<Summary, TransferError> {
    let begin = Instant::now();
    check(options)?;
    let container = container_link(&options.database, &options.container);
    let inputs = inputs(&options.files).map_err(TransferError::Usage)?;
    let definition = definition(client, options).await?;
    let rules = Arc::new(Rules {
        definition,
        allows_missing_key: options.allows_missing_key,
    });

    // The ledger knows where an earlier run ended.
    let import = description(client, options, &inputs, &container);
    let (checkpoint, dead) = (
        options.checkpoint.as_deref(),
        options.dead_letter.as_deref(),
    );
    let mut ledger = Ledger::open(import, checkpoint, dead, options.is_dry_run)?;
    let checkpoint = ledger.checkpoint().clone();
    if checkpoint.is_complete {
        return Ok(summary(&ledger, None, begin, 0));
    }
    ledger.save(false)?;

    // The source runs beside the requests.
    let may_repeat = Arc::new(AtomicBool::new(false));
    let sender = match options.is_dry_run {
        true => None,
        false => Some(sender(client, options, checkpoint.allowed, may_repeat.clone()).await?),
    };
    let read = Arc::new(AtomicU64::new(0));
    let total = total_bytes(&inputs).filter(|_| options.from.is_none());
    let feed = Feed::new(rules, read.clone(), checkpoint.settled.clone());
    let incoming = match &options.from {
        Some((client, link)) => {
            let origin = Origin {
                client: client.clone(),
                container: link.clone(),
                may_repeat,
            };
            origin.start(feed)
        }
        None => feed.files(inputs, options.format, options.csv.clone()),
    };

    progress.begin(total);
    let mut run = Run::new(sender, ledger, options, read);
    let outcome = run.run(incoming, progress).await;
    progress.end();
    run.ledger.save(outcome.is_ok())?;
    if let Err((reason, cause)) = outcome {
        let written = run.written(checkpoint.counts);
        let ended = Ended::new(reason, cause, written, options);
        return Err(TransferError::Ended(Box::new(ended)));
    }
    let records = run.ledger.counts().records - checkpoint.counts.records;
    Ok(summary(&run.ledger, Some(&run), begin, records))
}

/// Returns the largest number of items of one request. With a limit of RU/s, requests are small
/// enough for an even speed.
fn batch_max(options: &ImportOptions) -> usize {
    match options.rate {
        Some(rate) => options.batch.min((rate / 20.0) as usize).max(1),
        None => options.batch,
    }
}

/// Returns the size of all inputs, if it is known.
fn total_bytes(inputs: &[super::input::Input]) -> Option<u64> {
    inputs.iter().map(super::input::Input::size).sum()
}

/// Returns the sender of the import, with the present ranges of the container. Items up to
/// `sent_before` may have been sent by an earlier run.
async fn sender(
    client: &Client,
    options: &ImportOptions,
    sent_before: u64,
    may_repeat: Arc<AtomicBool>,
) -> Result<Arc<Sender>, TransferError> {
    let container = container_link(&options.database, &options.container);
    let client = client
        .with_patience(Duration::ZERO)
        .with_user_agent("orrery-import");
    let ranges = client.fresh_ranges(&container).await?;
    let router = Router::new(&ranges).map_err(TransferError::Failed)?;
    Ok(Arc::new(Sender {
        client,
        container,
        mode: options.mode,
        pace: Pace::new(options.concurrency, options.rate),
        router: RwLock::new(Arc::new(router)),
        sent_before,
        may_repeat,
        is_stale: AtomicBool::new(false),
        ends_at_refusal: options.dead_letter.is_none(),
        end_at: AtomicU64::new(END_NONE),
    }))
}

fn summary(ledger: &Ledger, run: Option<&Run>, begin: Instant, records_of_run: u64) -> Summary {
    Summary {
        counts: ledger.counts(),
        records_of_run,
        charge: run.map_or(0.0, |run| run.charge),
        elapsed: begin.elapsed(),
        throttled: run.map_or(0, Run::throttled),
        told: ledger.told.clone(),
        was_complete: run.is_none(),
    }
}

fn check(options: &ImportOptions) -> Result<(), TransferError> {
    let usage = |message: &str| Err(TransferError::Usage(message.into()));
    if options.files.is_empty() == options.from.is_none() {
        return usage("name either files to import (- for standard input), or --from");
    }
    if options.checkpoint.is_some() && options.files.iter().any(|file| file == "-") {
        return usage("standard input cannot be read again: --resume needs files or --from");
    }
    if let (Some(checkpoint), Some(dead)) = (&options.checkpoint, &options.dead_letter)
        && (checkpoint == dead || is_same_file(checkpoint, dead))
    {
        return usage("--resume and --dead-letter name the same file");
    }
    if options.checkpoint.is_some() && options.is_dry_run {
        return usage("--dry-run and --resume exclude each other");
    }
    if !(1..=100).contains(&options.batch) {
        return usage("a request has 1 to 100 items");
    }
    if options
        .rate
        .is_some_and(|rate| !(rate.is_finite() && rate >= 1.0))
    {
        return usage("--rate is a number of RU/s from 1");
    }
    Ok(())
}

/// Returns true if two names lead to one file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// Returns the text that identifies an import for its checkpoint: a file with another content has
/// another size or another time of its last change. The text contains no key.
fn description(
    client: &Client,
    options: &ImportOptions,
    inputs: &[super::input::Input],
    container: &str,
) -> String {
    let mut sources: Vec<String> = inputs
        .iter()
        .map(|input| match input.size() {
            Some(size) => format!(
                "{} ({size} bytes, changed at {})",
                input.full_name(),
                input.changed_at()
            ),
            None => input.name(),
        })
        .collect();
    if let Some((origin, link)) = &options.from {
        sources.push(format!("{}{link}", origin.endpoint()));
    }
    let target = client.endpoint().trim_end_matches('/');
    format!(
        "{:?} of {} into {target}/{container}",
        options.mode,
        sources.join(", ")
    )
}

/// Returns the partition key definition of the container, which is created if the options say so.
async fn definition(client: &Client, options: &ImportOptions) -> Result<Definition, TransferError> {
    let link = container_link(&options.database, &options.container);
    let wanted = options.create.as_ref().map(wanted_definition).transpose()?;
    let found = match client.read_container(&link, false).await {
        Ok(answer) => answer,
        Err(e) if e.is_not_found() => {
            let Some((new, (body, wanted))) = options.create.as_ref().zip(wanted) else {
                return Err(TransferError::Failed(format!(
                    "{link} does not exist: create it with --create-container --partition-key /…"
                )));
            };
            if options.is_dry_run {
                return Ok(wanted);
            }
            match client.create_database(&options.database, None).await {
                Err(e) if !e.is_conflict() => return Err(e.into()),
                _ => {}
            }
            let definition = serde_json::json!({"id": options.container, "partitionKey": body});
            let throughput = new.throughput.map(Throughput::Manual);
            let database = database_link(&options.database);
            client
                .create_container(&database, &definition, throughput)
                .await?;
            return Ok(wanted);
        }
        Err(e) => return Err(e.into()),
    };
    let failed = |cause: String| TransferError::Failed(format!("{link}: {cause}"));
    let body = parse(&found.body).map_err(|e| failed(e.to_string()))?;
    let existing = match body.get("partitionKey") {
        Some(key) => Definition::from_json(key).map_err(|e| failed(e.to_string()))?,
        None => Definition::system_key(),
    };
    match wanted {
        Some((_, wanted)) if wanted.paths() != existing.paths() => {
            Err(TransferError::Usage(format!(
                "{link} exists with the partition key {}",
                existing.to_json().to_text()
            )))
        }
        _ => Ok(existing),
    }
}

/// Returns the JSON and the meaning of the partition key of a new container.
fn wanted_definition(new: &NewContainer) -> Result<(serde_json::Value, Definition), TransferError> {
    let kind = if new.partition_key.len() > 1 {
        "MultiHash"
    } else {
        "Hash"
    };
    let body = serde_json::json!({"paths": new.partition_key, "kind": kind, "version": 2});
    let usage = |cause: String| TransferError::Usage(format!("--partition-key: {cause}"));
    let json = parse(body.to_string().as_bytes()).map_err(|e| usage(e.to_string()))?;
    let definition = Definition::from_json(&json).map_err(|e| usage(e.to_string()))?;
    Ok((body, definition))
}

/// A running import.
struct Run {
    /// `None` in a dry run.
    sender: Option<Arc<Sender>>,
    ledger: Ledger,
    is_upsert: bool,
    /// Items of one request at most.
    batch_max: usize,
    /// Items that wait for their request to be full, by partition key range.
    open: HashMap<Arc<str>, Vec<Item>>,
    /// Identities of the items that wait or are in flight; in a dry run, of all items.
    busy: HashSet<u128>,
    /// An item whose identity is busy.
    held: Option<Item>,
    /// The reason for which the source ended before its last record.
    source_failure: Option<String>,
    in_flight: usize,
    /// Items that were sent and may have been written.
    unknown: u64,
    charge: f64,
    results: mpsc::UnboundedSender<Sent>,
    finished: mpsc::UnboundedReceiver<Sent>,
    read: Arc<AtomicU64>,
}

impl Run {
    /// Returns an import before its first record; without a sender, a dry run.
    fn new(
        sender: Option<Arc<Sender>>,
        ledger: Ledger,
        options: &ImportOptions,
        read: Arc<AtomicU64>,
    ) -> Self {
        let (results, finished) = mpsc::unbounded_channel();
        Self {
            sender,
            ledger,
            is_upsert: options.mode == Mode::Upsert,
            batch_max: batch_max(options),
            open: HashMap::new(),
            busy: HashSet::new(),
            held: None,
            source_failure: None,
            in_flight: 0,
            unknown: 0,
            charge: 0.0,
            results,
            finished,
            read,
        }
    }

    /// Sends all records. After a failure, the requests in flight are waited for.
    ///
    /// # Errors
    /// The reason for an early end, and its kind.
    async fn run(
        &mut self,
        mut incoming: mpsc::Receiver<Incoming>,
        progress: &dyn Progress,
    ) -> Result<(), (TransferError, Cause)> {
        let mut outcome = self.take_all(&mut incoming, progress).await;
        let is_of_source = self.source_failure.is_some();
        // The source ends when its receiver is gone.
        drop(incoming);
        while self.in_flight > 0 {
            let Some(sent) = self.finished.recv().await else {
                break;
            };
            let settled = self.settle(sent);
            outcome = outcome.and(settled);
        }
        self.report(progress);
        let cause = match self.ledger.refusal() {
            Some(reason) if is_of_existing_id(reason) => Cause::Conflict,
            Some(_) => Cause::Refusal,
            None if is_of_source => Cause::Source,
            None => Cause::Failure,
        };
        outcome.map_err(|reason| (reason, cause))
    }

    /// Returns the items that this run wrote; `before` are the counts of earlier runs.
    fn written(&self, before: Counts) -> Written {
        let counts = self.ledger.counts();
        let in_order = counts.created + counts.replaced - before.created - before.replaced;
        let behind = self.ledger.written_behind();
        Written {
            items: in_order + behind,
            behind,
            unknown: self.unknown,
        }
    }

    async fn take_all(
        &mut self,
        incoming: &mut mpsc::Receiver<Incoming>,
        progress: &dyn Progress,
    ) -> Result<(), TransferError> {
        let mut ticks = tokio::time::interval(TICK);
        let mut saved = Instant::now();
        let mut has_ended = false;
        while !has_ended || self.held.is_some() || self.in_flight > 0 || !self.open.is_empty() {
            let takes = !has_ended && self.has_room();
            tokio::select! {
                biased;
                Some(sent) = self.finished.recv(), if self.in_flight > 0 => {
                    self.settle(sent)?;
                    if let Some(sender) = &self.sender {
                        sender.refresh_ranges().await?;
                    }
                }
                _ = ticks.tick() => {
                    self.send_all();
                    self.report(progress);
                }
                record = incoming.recv(), if takes => match record {
                    Some(record) => self.take(record)?,
                    None => has_ended = true,
                },
            }
            // The records before a fault of the source are imported all the same, and so are those
            // before a record that ends the import.
            has_ended |= self.source_failure.is_some();
            if let Some(end) = self.end() {
                has_ended = true;
                self.drop_behind(end);
            }
            if has_ended {
                self.send_all();
            }
            self.take_held();
            // The checkpoint is also what allows further records.
            let is_at_limit = self.ledger_is_at_limit();
            if saved.elapsed() > CHECKPOINT_INTERVAL || is_at_limit {
                self.ledger.save(false)?;
                saved = Instant::now();
            }
        }
        let Some(reason) = &self.source_failure else {
            return Ok(());
        };
        let counts = self.ledger.counts();
        let others = match self.sender {
            Some(_) => "are imported",
            None => "would be imported",
        };
        Err(TransferError::Failed(format!(
            "{reason}. Of the {} records before the fault, {} were refused and the others {others}",
            counts.records, counts.refused
        )))
    }

    /// Returns the ordinal of the first record that ends the import.
    fn end(&self) -> Option<u64> {
        let end = self.sender.as_ref()?.end_at.load(Ordering::Relaxed);
        (end != END_NONE).then_some(end)
    }

    /// Drops the items behind a record that ends the import.
    fn drop_behind(&mut self, end: u64) {
        self.held.take_if(|item| item.ordinal > end);
        for items in self.open.values_mut() {
            items.retain(|item| item.ordinal < end);
        }
        self.open.retain(|_, items| !items.is_empty());
    }

    /// Returns true if a further record may be taken.
    fn has_room(&self) -> bool {
        let limit = self.sender.as_ref().map_or(1, |sender| sender.pace.limit());
        self.held.is_none() && self.in_flight < limit && !self.ledger_is_at_limit()
    }

    fn ledger_is_at_limit(&self) -> bool {
        self.ledger.next_ordinal() > self.ledger.allowed()
    }

    fn take(&mut self, record: Incoming) -> Result<(), TransferError> {
        let (name, place, fault, text, room) = match record {
            Incoming::Item(mut item) => {
                item.ordinal = self.ledger.begin();
                return match self.sender {
                    Some(_) => {
                        self.held = Some(*item);
                        self.take_held();
                        Ok(())
                    }
                    None => self.check_only(*item),
                };
            }
            Incoming::Faulty {
                name,
                place,
                fault,
                text,
                room,
            } => (name, place, fault, text, room),
            Incoming::Failed(reason) => {
                self.source_failure = Some(reason);
                return Ok(());
            }
        };
        let ordinal = self.ledger.begin();
        if let (Some(sender), true) = (&self.sender, self.ledger.ends_at_refusal()) {
            sender.end_at.fetch_min(ordinal, Ordering::Relaxed);
        }
        let finished = Finished {
            place,
            name,
            verdict: Verdict::Refused(fault.reason),
            mark: fault.mark,
            has_made_id: false,
            text,
            _room: room,
        };
        self.ledger.finish(ordinal, finished)
    }

    /// Puts the held item to the others of its range, unless the same item is on its way: two
    /// records of one item are written one after the other.
    fn take_held(&mut self) {
        let (Some(item), Some(sender)) = (self.held.take(), self.sender.clone()) else {
            return;
        };
        if self.busy.contains(&item.identity) {
            self.held = Some(item);
            self.send_all();
            return;
        }
        self.busy.insert(item.identity);
        let range = sender.range_of(&item);
        let size = item.text.len();
        let open = self.open.entry(range.clone()).or_default();
        let bytes: usize = open.iter().map(|item| item.text.len()).sum();
        if bytes > 0 && bytes + size > REQUEST_BYTES {
            let full = std::mem::replace(open, vec![item]);
            self.spawn(range, full);
            return;
        }
        open.push(item);
        if open.len() >= self.batch_max {
            let full = std::mem::take(open);
            self.open.remove(&range);
            self.spawn(range, full);
        }
    }

    fn send_all(&mut self) {
        for (range, items) in std::mem::take(&mut self.open) {
            self.spawn(range, items);
        }
    }

    fn spawn(&mut self, range: Arc<str>, items: Vec<Item>) {
        let (Some(sender), results) = (self.sender.clone(), self.results.clone()) else {
            return;
        };
        self.in_flight += 1;
        tokio::spawn(async move {
            let sent = sender.send(items, &range).await;
            // The receiver is gone only after the end of the import.
            let _ = results.send(sent);
        });
    }

    /// Takes the verdicts of one request.
    fn settle(&mut self, sent: Sent) -> Result<(), TransferError> {
        self.in_flight -= 1;
        self.charge += sent.charge;
        self.unknown += sent.unknown;
        let mut outcome = Ok(());
        for (item, verdict) in sent.verdicts {
            self.busy.remove(&item.identity);
            let finished = self.finish(item, verdict);
            outcome = outcome.and(finished);
        }
        match sent.fatal {
            Some(fatal) => Err(fatal),
            None => outcome,
        }
    }

    fn finish(&mut self, item: Item, verdict: Verdict) -> Result<(), TransferError> {
        let text = match &verdict {
            Verdict::Refused(_) => item.text.to_vec(),
            _ => Vec::new(),
        };
        let finished = Finished {
            place: item.place,
            name: item.name,
            verdict,
            mark: String::new(),
            has_made_id: item.has_made_id,
            text,
            _room: item.room,
        };
        self.ledger.finish(item.ordinal, finished)
    }

    /// Counts an item in a dry run.
    fn check_only(&mut self, item: Item) -> Result<(), TransferError> {
        let is_new = self.busy.insert(item.identity);
        let verdict = match (is_new, self.is_upsert) {
            (true, _) => Verdict::Created,
            (false, true) => Verdict::Replaced,
            (false, false) => Verdict::Refused(format!(
                "the input has the id '{}' with this partition key twice",
                item.id
            )),
        };
        self.finish(item, verdict)
    }

    fn report(&self, progress: &dyn Progress) {
        let counts = self.ledger.counts();
        progress.update(&State {
            done: self.read.load(Ordering::Relaxed),
            items: counts.records,
            refused: counts.refused,
            charge: self.charge,
            requests: self.in_flight,
            throttled: self.throttled(),
        });
    }

    fn throttled(&self) -> u64 {
        self.sender
            .as_ref()
            .map_or(0, |sender| sender.pace.throttled())
    }
}
