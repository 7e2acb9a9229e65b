//! The source of an import beside its requests: records are read, checked, and passed on, at most
//! 64 MB ahead.

use super::input::{CsvRules, Input, InputFormat, Record};
use super::item::{Fault, Item, RecordPlace, Rules, place_of, prepare};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// Kilobytes of records between the source and their verdicts.
const ROOM_KB: usize = 64 * 1024;
/// Records between the source and the requests.
pub(super) const QUEUE: usize = 4096;

/// A record on its way.
pub(super) enum Incoming {
    /// An item that can be sent.
    Item(Box<Item>),
    /// A record that cannot be imported.
    Faulty {
        name: Arc<str>,
        place: RecordPlace,
        fault: Fault,
        text: Vec<u8>,
        /// Room of the text in the memory of the import.
        room: Option<OwnedSemaphorePermit>,
    },
    /// The source cannot be read any further.
    Failed(String),
}

/// The source of an import.
pub(super) struct Feed {
    rules: Arc<Rules>,
    read: Arc<AtomicU64>,
    /// The last settled record of an earlier run.
    settled: RecordPlace,
    room: Arc<Semaphore>,
}

impl Feed {
    pub(super) fn new(rules: Arc<Rules>, read: Arc<AtomicU64>, settled: RecordPlace) -> Self {
        Self {
            rules,
            read,
            settled,
            room: Arc::new(Semaphore::new(ROOM_KB)),
        }
    }

    /// Returns the record as it is passed on.
    pub(super) async fn incoming(&self, name: &Arc<str>, part: usize, record: Record) -> Incoming {
        let prepared = prepare(&self.rules, name, part, &record);
        // A refused record keeps its text too, until the records before it are finished.
        let bytes = match &prepared {
            Ok(item) => item.text.len(),
            Err(_) => record.text.len(),
        };
        let kilobytes = u32::try_from(bytes / 1024 + 1).unwrap_or(1);
        // The semaphore is never closed; without a permit the text counts for nothing.
        let room = self.room.clone().acquire_many_owned(kilobytes).await.ok();
        match prepared {
            Ok(mut item) => {
                item.room = room;
                Incoming::Item(Box::new(item))
            }
            Err(fault) => Incoming::Faulty {
                name: name.clone(),
                place: place_of(part, &record),
                fault,
                text: record.text,
                room,
            },
        }
    }

    /// Returns the last settled record of an earlier run.
    pub(super) fn settled(&self) -> &RecordPlace {
        &self.settled
    }

    /// Reads files on a thread of its own.
    pub(super) fn files(
        self,
        inputs: Vec<Input>,
        format: Option<InputFormat>,
        csv: CsvRules,
    ) -> mpsc::Receiver<Incoming> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let handle = Handle::current();
        std::thread::spawn(move || {
            for (part, input) in inputs.into_iter().enumerate() {
                if part < self.settled.part {
                    let size = input.size().unwrap_or_default();
                    self.read
                        .fetch_add(size, std::sync::atomic::Ordering::Relaxed);
                    continue;
                }
                let settled = if part == self.settled.part {
                    self.settled.number
                } else {
                    0
                };
                let name: Arc<str> = input.name().into();
                let mut is_wanted = true;
                let outcome = input.read(format, &csv, &self.read, &mut |record| {
                    if record.number > settled {
                        let incoming = handle.block_on(self.incoming(&name, part, record));
                        is_wanted = sender.blocking_send(incoming).is_ok();
                    }
                    is_wanted
                });
                if let Err(cause) = outcome {
                    // Without a receiver the import has ended already.
                    let _ = sender.blocking_send(Incoming::Failed(cause));
                    return;
                }
                if !is_wanted {
                    return;
                }
            }
        });
        receiver
    }
}
