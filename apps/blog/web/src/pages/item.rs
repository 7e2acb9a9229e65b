//! One item of a model as JSON: what the table of requests says was read.
//!
//! The containers of the models have nothing that the pages do not show; the application's own
//! containers, with accounts and sessions, are not among them.

use crate::frame::Frame;
use crate::squares::name_of;
use crate::text;
use crate::trouble::Trouble;
use crate::visit::Visit;
use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use http::StatusCode;

#[derive(Template)]
#[template(path = "item.html")]
struct ItemPage {
    frame: Frame,
    container: String,
    key: String,
    id: String,
    bytes: String,
    json: String,
}

/// The parts of the path: model, container, partition key, id.
type ItemPath = (String, String, String, String);

/// `GET /{v}/items/{container}/{key}/{id}`
pub(crate) async fn show(mut visit: Visit, Path(path): Path<ItemPath>) -> Response {
    let result = show_item(&mut visit, path).await;
    visit.answer(result).await
}

async fn show_item(visit: &mut Visit, path: ItemPath) -> Result<Response, Trouble> {
    let (v, container, key, id) = path;
    let model = visit.enter(&v)?;
    visit.load_user().await?;
    let blog = visit.blog(model);
    let links = blog.containers();
    let link = links.into_iter().find(|link| name_of(link) == container);
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=100).contains(&name.len()) && name.bytes().all(is_part)
    };
    let Some(link) = link.filter(|_| is_name(&key) && is_name(&id)) else {
        return Err(Trouble::NotFound("item"));
    };
    let item = match blog.client().read(&visit.meter, link, &key, &id).await {
        Err(error) if error.is_not_found() => return Err(Trouble::NotFound("item")),
        read => read?,
    };
    let page = ItemPage {
        frame: visit.frame("Item").await,
        container,
        key,
        id,
        bytes: text::counted(item.to_string().len() as u64, "byte", "bytes"),
        json: serde_json::to_string_pretty(&item).unwrap_or_default(),
    };
    Ok(visit.page(StatusCode::OK, &page))
}
