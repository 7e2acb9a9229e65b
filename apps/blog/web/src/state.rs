//! The state that all requests share.

use crate::Options;
use crate::accounts::Accounts;
use crate::cache::Cache;
use crate::lesson::Answers;
use crate::lesson::Running;
use crate::markdown::Renderer;
use crate::prices::PagePrices;
use crate::registration::Registrations;
use crate::sessions::Sessions;
use orrery_blog::lesson::{Comparing, Lab};
use orrery_blog::writes::{Receipt, Writes};
use orrery_blog::{Blog, Model, Site};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Receipts in memory; older ones are read from the journal, without records.
const RECEIPTS_MAX: usize = 2_000;
/// Browsers whose answers to the questions are remembered.
const ANSWERS_MAX: usize = 2_000;

/// The state of the application. Clones share it.
#[derive(Clone)]
pub(crate) struct AppState(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) site: Site,
    pub(crate) writes: Writes,
    pub(crate) accounts: Accounts,
    pub(crate) registrations: Registrations,
    pub(crate) sessions: Sessions,
    pub(crate) renderer: Renderer,
    pub(crate) options: Options,
    pub(crate) comparing: Comparing,
    pub(crate) lab: Lab,
    /// Answers to the questions of the lesson, by the secret of the browser.
    pub(crate) answers: Cache<Answers>,
    /// The visitors whose trials of the lesson run now.
    pub(crate) trials: Running,
    /// Receipts of writes, with the records of their requests, by id.
    pub(crate) receipts: Cache<Receipt>,
    /// The last price of each page in each model.
    pub(crate) prices: Arc<PagePrices>,
    pub(crate) counters: Counters,
}

/// Counters for `/metrics`.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) responses: [AtomicU64; 5],
    pub(crate) writes: AtomicU64,
    pub(crate) repeated_writes: AtomicU64,
    /// Hundredths of request units of pages and writes, by model.
    pub(crate) charges: [AtomicU64; 3],
    /// Hundredths of request units of the application's own requests.
    pub(crate) own_charges: AtomicU64,
    pub(crate) throttled: AtomicU64,
}

impl Counters {
    /// Adds `number` to a counter.
    pub(crate) fn add(counter: &AtomicU64, number: u64) {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

impl Deref for AppState {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl AppState {
    pub(crate) fn new(site: Site, options: Options) -> Self {
        let control = site.control();
        Self(Arc::new(Inner {
            writes: Writes::new(site.clone()),
            accounts: Accounts::new(site.control()),
            registrations: Registrations::default(),
            sessions: Sessions::new(site.control()),
            renderer: Renderer::new(),
            comparing: Comparing::default(),
            lab: Lab::new(
                control.client.clone(),
                control.prefix(),
                options.lab.clone(),
            ),
            trials: Running::default(),
            options,
            answers: Cache::new(ANSWERS_MAX),
            receipts: Cache::new(RECEIPTS_MAX),
            prices: Arc::new(PagePrices::new()),
            counters: Counters::default(),
            site,
        }))
    }
}

impl Inner {
    /// Returns the blog of a model, whose throttled requests are repeated until `deadline`.
    pub(crate) fn blog(&self, model: Model, deadline: Instant) -> Blog {
        let blog = self.site.blog(model);
        let client = blog.client().with_deadline(deadline);
        blog.with_client(client)
    }

    /// Measures the models and the pages in the background, if the options say so.
    pub(crate) fn measure(&self) {
        if self.options.measures {
            self.comparing.watch(&self.site);
            PagePrices::measure(&self.prices, &self.site);
        }
    }
}
