//! The last price of each page in each model, and the measuring of a page in the models in which
//! the page was not requested.
//!
//! A page that is shown in one model is measured in the others in the background: one page after
//! another at no more than [`RU_PER_SECOND`], at most [`WAITING_MAX`] waiting, and no page again
//! before [`GOOD_FOR`] has passed, unless it was written to. The requests have a meter of their
//! own, so no page and no session shows them.

use crate::cache::Cache;
use crate::pages::read::Subject;
use crate::squares::{Asked, asked_by};
use orrery_blog::sync::lock;
use orrery_blog::{Charge, Meter, Model, Site};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{self, Receiver, Sender};

/// Pages whose prices are remembered.
const PAGES_MAX: usize = 5_000;
/// Pages that wait to be measured; further ones are measured when they are shown again.
const WAITING_MAX: usize = 64;
/// Time after which a price is measured again when the page is shown.
const GOOD_FOR: Duration = Duration::from_secs(300);
/// The rate of the measurements; a pause follows each page so that users keep the rest.
const RU_PER_SECOND: f64 = 4_000.0;
/// Time for one page in one model.
const PATIENCE: Duration = Duration::from_secs(5);

/// The price of a page in a model.
#[derive(Clone)]
pub(crate) struct PagePrice {
    pub(crate) charge: Charge,
    pub(crate) asked: Asked,
    /// The time of the measurement.
    at: Instant,
}

/// A page that is to be measured.
struct Wanted {
    subject: Subject,
    models: Vec<Model>,
}

/// The prices of pages.
pub(crate) struct PagePrices {
    known: Cache<[Option<PagePrice>; 3]>,
    /// Paths of the pages that wait or are being measured.
    waiting: Mutex<HashSet<String>>,
    /// The way to the task that measures; not set if no task does.
    queue: OnceLock<Sender<Wanted>>,
}

impl PagePrices {
    pub(crate) fn new() -> Self {
        Self {
            known: Cache::new(PAGES_MAX),
            waiting: Mutex::default(),
            queue: OnceLock::new(),
        }
    }

    /// Remembers what a page cost in a model; `meter` has its requests.
    pub(crate) fn remember(&self, page: &str, model: Model, meter: &Meter) {
        let price = PagePrice {
            charge: meter.measurement(Duration::ZERO).ru,
            asked: asked_by(&meter.records()),
            at: Instant::now(),
        };
        let first = || [None, None, None];
        self.known
            .update(page, first, |known| known[model as usize] = Some(price));
    }

    /// Returns the remembered prices of a page by model.
    pub(crate) fn of(&self, page: &str) -> [Option<PagePrice>; 3] {
        self.known.get(page).unwrap_or_default()
    }

    /// Returns true if the page waits or is being measured.
    pub(crate) fn is_waiting(&self, page: &str) -> bool {
        lock(&self.waiting).contains(page)
    }

    /// Has a page measured in those of `models` whose price is unknown or old. `is_stale` is true
    /// after a write, which changes the price.
    pub(crate) fn want(&self, subject: &Subject, models: &[Model], is_stale: bool) {
        let Some(queue) = self.queue.get() else {
            return;
        };
        let path = subject.path();
        let known = self.of(&path);
        let is_known = |model: Model| {
            let price = known[model as usize].as_ref();
            !is_stale && price.is_some_and(|price| price.at.elapsed() < GOOD_FOR)
        };
        let mut wanted = models.to_vec();
        wanted.retain(|model| !is_known(*model));
        if wanted.is_empty() || !lock(&self.waiting).insert(path.clone()) {
            return;
        }
        let wanted = Wanted {
            subject: subject.clone(),
            models: wanted,
        };
        if queue.try_send(wanted).is_err() {
            lock(&self.waiting).remove(&path);
        }
    }

    /// Starts the task that measures pages of `site`; the task ends with the last owner of the
    /// prices. Has to be called in a Tokio runtime.
    pub(crate) fn measure(prices: &Arc<Self>, site: &Site) {
        let (sender, receiver) = mpsc::channel(WAITING_MAX);
        if prices.queue.set(sender).is_ok() {
            let prices = Arc::downgrade(prices);
            tokio::spawn(measure_all(prices, site.clone(), receiver));
        }
    }
}

/// Measures one page after another.
async fn measure_all(prices: Weak<PagePrices>, site: Site, mut queue: Receiver<Wanted>) {
    while let Some(Wanted { subject, models }) = queue.recv().await {
        let Some(prices) = prices.upgrade() else {
            return;
        };
        let path = subject.path();
        let mut spent = 0.0;
        for model in models {
            if !site.models().contains(&model) {
                continue;
            }
            let blog = site.blog(model);
            let client = blog.client().with_deadline(Instant::now() + PATIENCE);
            let meter = Meter::recording();
            // A page that cannot be read keeps its old price.
            let read = subject.read(&blog.with_client(client), &meter, None).await;
            spent += meter.measurement(Duration::ZERO).ru.ru();
            if read.is_ok() {
                prices.remember(&path, model, &meter);
            }
        }
        lock(&prices.waiting).remove(&path);
        drop(prices);
        tokio::time::sleep(Duration::from_secs_f64(spent / RU_PER_SECOND)).await;
    }
}
