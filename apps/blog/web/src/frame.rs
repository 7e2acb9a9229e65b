//! The parts of every page outside its main content: header, footer, notice and meter drawer.
//!
//! A template extends `layout.html` and has a field `frame: Frame`; the handler gets the frame from
//! [`Visit::frame`](crate::visit::Visit::frame) after its requests to the database.

use crate::assets;
use crate::drawer::Drawer;
use crate::face::face;
use crate::visit::Visit;
use orrery_blog::Model;
use orrery_blog::writes::{Receipt, WriteOperation};

/// The data of `layout.html`.
pub(crate) struct Frame {
    /// Title of the page.
    pub(crate) title: String,
    /// The model of the page, or the home model: `v3`.
    pub(crate) model: String,
    /// The models that are present.
    pub(crate) tabs: Vec<ModelTab>,
    /// The signed-in user.
    pub(crate) user: Option<Person>,
    /// The token of the page's forms.
    pub(crate) csrf: String,
    /// The result of the write after which the page is shown.
    pub(crate) notice: Option<Notice>,
    pub(crate) drawer: Drawer,
}

/// A model in the header.
pub(crate) struct ModelTab {
    /// `v3`
    pub(crate) name: String,
    /// `V3`
    pub(crate) label: String,
    /// The same page in this model.
    pub(crate) href: String,
    pub(crate) is_current: bool,
}

/// A user as pages show one.
#[derive(Debug, Clone)]
pub(crate) struct Person {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The face of the name, as markup.
    pub(crate) face: String,
}

/// A sentence about a write that was just applied.
pub(crate) struct Notice {
    pub(crate) text: String,
    /// The key of the draft that the browser can forget.
    pub(crate) draft: String,
}

impl Person {
    pub(crate) fn new(id: &str, name: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: name.to_owned(),
            face: face(name),
        }
    }
}

/// Returns the name of a model in paths.
pub(crate) fn path_name(model: Model) -> String {
    model.to_string().to_lowercase()
}

impl Frame {
    pub(crate) async fn of(visit: &Visit, title: &str) -> Self {
        let page = visit.page.clone().unwrap_or_default();
        let mut tabs = Vec::new();
        for model in visit.state.site.models() {
            let name = path_name(model);
            tabs.push(ModelTab {
                href: format!("/{name}{page}"),
                label: model.to_string(),
                name,
                is_current: visit.model == Some(model),
            });
        }
        Self {
            title: title.to_owned(),
            model: path_name(visit.shown_model()),
            tabs,
            user: visit
                .user
                .as_ref()
                .map(|user| Person::new(&user.user_id, &user.username)),
            csrf: visit.csrf(),
            notice: visit
                .written
                .as_ref()
                .map(notice)
                .or_else(|| absence(visit)),
            drawer: Drawer::of(visit).await,
        }
    }

    /// Returns the path of a built file.
    pub(crate) fn asset(&self, name: &str) -> String {
        assets::path(name)
    }

    /// Returns the markup of an icon. `name` is a word of this program, not a visitor's text.
    pub(crate) fn icon(&self, name: &str) -> String {
        let icons = assets::path("icons.svg");
        format!("<svg class=\"icon\" aria-hidden=\"true\"><use href=\"{icons}#{name}\"/></svg>")
    }
}

/// Returns the sentence about a model that is not present, if the visitor asked for one.
fn absence(visit: &Visit) -> Option<Notice> {
    let asked: Model = visit.query.get("absent")?.parse().ok()?;
    let home = visit.shown_model();
    let is_absent = !visit.state.site.models().contains(&asked);
    is_absent.then(|| Notice {
        text: format!("{asked} is not present on this site. This is {home}."),
        draft: String::new(),
    })
}

/// Returns the sentence about a write.
fn notice(receipt: &Receipt) -> Notice {
    let (text, draft) = match &receipt.operation {
        WriteOperation::SignUp { .. } => ("Welcome. You are signed up.", String::new()),
        WriteOperation::Rename { .. } => (
            "Your name is changed. Your posts, comments and likes follow.",
            "profile".to_owned(),
        ),
        WriteOperation::CreatePost { .. } => ("Your post is published.", "post:new".into()),
        WriteOperation::EditPost { post_id, .. } => {
            ("Your changes are saved.", format!("post:{post_id}"))
        }
        WriteOperation::DeletePost { .. } => ("The post is deleted.", String::new()),
        WriteOperation::Comment { post_id, .. } => {
            ("Your comment is published.", format!("comment:{post_id}"))
        }
        WriteOperation::Like { .. } => ("You like this post.", String::new()),
    };
    Notice {
        text: text.to_owned(),
        draft,
    }
}
