//! The meter drawer: every request to the database that a page caused, with sums.
//!
//! The sum of the rows is the price of the page and equals the charges of the responses. After a
//! write, the rows of the write come first, and the prices include the write. The requests of the
//! application itself are listed apart.

use crate::bars::PriceBars;
use crate::consequences::Consequences;
use crate::requests::{Place, RequestTable, container_names};
use crate::squares::{Asked, Layout, PartitionRow, asked_by};
use crate::text;
use crate::visit::Visit;
use orrery_blog::writes::{ModelCost, Receipt};
use orrery_blog::{Charge, Model, RequestRecord};
use std::collections::HashMap;

/// The data of `drawer.html`.
pub(crate) struct Drawer {
    /// Names of the article's requests, e.g. `C3 Q2 Q4`.
    pub(crate) codes: String,
    pub(crate) requests: String,
    pub(crate) charge: String,
    pub(crate) ms: String,
    pub(crate) is_open: bool,
    /// The same page in each model; `None` if the page belongs to no model.
    pub(crate) prices: Option<PriceBars>,
    /// The physical partitions of the model; empty if the page belongs to no model.
    pub(crate) partitions: Vec<PartitionRow>,
    pub(crate) page_table: RequestTable,
    pub(crate) own_table: RequestTable,
    pub(crate) own_requests: u64,
    /// Containers of the application's own requests.
    pub(crate) own_containers: String,
    /// The work of the pipelines after a write.
    pub(crate) consequences: Option<Consequences>,
    /// The sums for scripts, without separators.
    pub(crate) plain_charge: String,
    pub(crate) plain_requests: usize,
    pub(crate) plain_ms: String,
    pub(crate) session_pages: String,
    pub(crate) session_requests: String,
    pub(crate) session_charge: String,
}

/// The requests of a page with their sums; after a write, those of the write come first.
pub(crate) struct PageCost {
    codes: String,
    pub(crate) records: Vec<RequestRecord>,
    requests: usize,
    pub(crate) charge: Charge,
    ms: f64,
}

impl PageCost {
    fn of(visit: &Visit, model: Model) -> Self {
        let page = visit.cost();
        let mut cost = Self {
            codes: visit.codes.join(" "),
            records: visit.meter.records(),
            requests: page.requests,
            charge: page.ru,
            ms: page.ms,
        };
        if let Some(receipt) = &visit.written
            && let Some(write) = write_cost(Some(receipt), model)
        {
            cost.codes = format!("{} {}", receipt.operation.code(), cost.codes);
            cost.records = [write.records.clone(), cost.records].concat();
            cost.requests += write.measurement.requests;
            cost.charge.0 += write.measurement.ru.0;
            cost.ms += write.measurement.ms;
        }
        cost
    }
}

/// Returns the cost of the write after which a page is shown. `None` for a receipt without records,
/// which was read from the journal: the sum of the rows would not be the sum of the page.
pub(crate) fn write_cost(receipt: Option<&Receipt>, model: Model) -> Option<&ModelCost> {
    let cost = receipt?.cost(model)?;
    (!cost.records.is_empty()).then_some(cost)
}

impl Drawer {
    pub(crate) async fn of(visit: &Visit) -> Self {
        let model = visit.shown_model();
        let cost = PageCost::of(visit, model);
        let asked = asked_by(&cost.records);
        let layout = match visit.model {
            Some(_) => Layout::of(&visit.blog(model)).await,
            None => Layout::default(),
        };
        let prices = PriceBars::of_visit(visit, &cost, &asked).await;
        let (page_table, own_table) = tables(visit, &cost, &layout);
        let own = visit.own.measurement(visit.started.elapsed());
        // A script that asks for a part of a page again shows no page.
        let sum = match visit.headers.contains_key("x-part") {
            true => visit.state.sessions.sum(&visit.secret),
            false => {
                let cost = visit.cost();
                visit.state.sessions.add_page(&visit.secret, 1, &cost)
            }
        };
        Self {
            codes: cost.codes,
            requests: text::counted(cost.requests as u64, "request", "requests"),
            charge: text::charge(cost.charge),
            ms: text::milliseconds(cost.ms),
            is_open: visit.query.contains_key("done") || visit.query.contains_key("measure"),
            prices,
            partitions: layout.rows(&asked),
            page_table,
            own_requests: own.requests as u64,
            own_containers: container_names(&visit.own.records()),
            own_table,
            consequences: visit
                .written
                .as_ref()
                .map(|receipt| Consequences::of(&visit.state, receipt, model)),
            plain_charge: cost.charge.to_string(),
            plain_requests: cost.requests,
            plain_ms: format!("{:.1}", cost.ms),
            session_pages: text::counted(sum.pages, "page", "pages"),
            session_requests: text::counted(sum.requests, "request", "requests"),
            session_charge: text::charge(sum.charge),
        }
    }
}

/// Returns the table of the page's requests and that of the application's own.
fn tables(visit: &Visit, cost: &PageCost, layout: &Layout) -> (RequestTable, RequestTable) {
    let squares = layout.names();
    let of_page = Place {
        model: visit.model,
        squares: &squares,
    };
    let sum = ("This page", cost.charge, cost.ms);
    let page = RequestTable::of("Requests of this page", &cost.records, &of_page, sum);

    let records = visit.own.records();
    let ms = records.iter().map(|record| record.ms).sum();
    let charge = visit.own.measurement(visit.started.elapsed()).ru;
    let (no_squares, caption) = (HashMap::new(), "Requests of the application itself");
    let of_application = Place {
        model: None,
        squares: &no_squares,
    };
    let sum = ("The application", charge, ms);
    let own = RequestTable::of(caption, &records, &of_application, sum);
    (page, own)
}

/// Returns what a page asked after what a write before it asked.
pub(crate) fn after_write(receipt: Option<&Receipt>, model: Model, page: Asked) -> Asked {
    let Some(write) = write_cost(receipt, model) else {
        return page;
    };
    let mut asked = asked_by(&write.records);
    let rows = asked.values().map(|at| at.order).max().unwrap_or_default();
    for (partition, at) in page {
        let all = asked.entry(partition).or_default();
        all.requests += at.requests;
        all.charge.0 += at.charge.0;
        if all.order == 0 {
            all.order = rows + at.order;
        }
    }
    asked
}
