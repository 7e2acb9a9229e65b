//! Addresses in the console of the server, where a reader sees the items behind a page.

use crate::visit::Visit;
use orrery_blog::Model;

/// Returns the address of the items of a container; `None` without a known console.
pub(crate) fn container_of(visit: &Visit, model: Model, container: &str) -> Option<String> {
    let console = visit.state.options.console.as_ref()?;
    let blog = visit.state.site.blog(model);
    Some(address(console, blog.database(), container))
}

/// Returns the address of the item whose id is also its partition key.
pub(crate) fn item_of(visit: &Visit, model: Model, container: &str, id: &str) -> Option<String> {
    // Pages are shown for ids only, which need no escape.
    let container = container_of(visit, model, container)?;
    Some(format!("{container}?id={id}&key=%5B%22{id}%22%5D"))
}

fn address(console: &str, database: &str, container: &str) -> String {
    let database =
        percent_encoding::utf8_percent_encode(database, percent_encoding::NON_ALPHANUMERIC);
    format!("{console}#/data/{database}/{container}/items")
}
