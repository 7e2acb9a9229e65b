//! Pages that show posts: the front page, a post, its likes, a user.
//!
//! Each page makes a fixed list of the article's requests, so the same requests can be run in the
//! other models to compare their prices: in the background, or before the answer (`?measure=all`).

use crate::console;
use crate::frame::{Frame, Person, path_name};
use crate::secret;
use crate::text::{self, When};
use crate::trouble::Trouble;
use crate::visit::Visit;
use askama::Template;
use axum::extract::Path;
use axum::response::{IntoResponse, Redirect, Response};
use futures_util::future::{join_all, try_join};
use http::StatusCode;
use orrery_blog::{Blog, BlogError, ListPage, Meter, Model, PAGE_ROWS};
use serde_json::Value;

/// The subject of a page that reads.
#[derive(Debug, Clone)]
pub(crate) enum Subject {
    /// Q6
    Front,
    /// Q2, Q4 and Q5
    Post(String),
    /// Q5
    Likes(String),
    /// Q1 and Q3
    User(String),
}

/// The items of a page.
pub(crate) struct Items {
    /// The post or the user.
    pub(crate) head: Value,
    /// The list that has pages.
    pub(crate) list: ListPage,
    /// The likes of a post.
    pub(crate) likes: ListPage,
}

impl Subject {
    /// Returns the path of the page without the model.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Front => String::new(),
            Self::Post(id) => format!("/posts/{id}"),
            Self::Likes(id) => format!("/posts/{id}/likes"),
            Self::User(id) => format!("/users/{id}"),
        }
    }

    /// Returns the subject of the page at a path without the model.
    pub(crate) fn at(path: &str) -> Option<Self> {
        if path.is_empty() {
            return Some(Self::Front);
        }
        let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
        match parts.as_slice() {
            ["posts", id] if text::is_id(id) => Some(Self::Post((*id).to_owned())),
            ["posts", id, "likes"] if text::is_id(id) => Some(Self::Likes((*id).to_owned())),
            ["users", id] if text::is_id(id) => Some(Self::User((*id).to_owned())),
            _ => None,
        }
    }

    /// Returns the article's names of the requests.
    pub(crate) fn codes(&self) -> &'static [&'static str] {
        match self {
            Self::Front => &["Q6"],
            Self::Post(_) => &["Q2", "Q4", "Q5"],
            Self::Likes(_) => &["Q5"],
            Self::User(_) => &["Q1", "Q3"],
        }
    }

    /// Returns the noun of the missing thing.
    fn noun(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            _ => "post",
        }
    }

    /// Makes the requests of the page.
    pub(crate) async fn read(
        &self,
        blog: &Blog,
        meter: &Meter,
        after: Option<&str>,
    ) -> Result<Items, BlogError> {
        let empty = || ListPage {
            items: Vec::new(),
            next: None,
        };
        Ok(match self {
            Self::Front => Items {
                head: Value::Null,
                list: blog.feed_page(meter, after).await?,
                likes: empty(),
            },
            Self::Post(id) => {
                // A missing post costs one read only, so the lists wait for the post.
                let head = blog.post(meter, id).await?;
                let comments = blog.comments_page(meter, id, after);
                let likes = blog.likes_page(meter, id, None);
                let (list, likes) = try_join(comments, likes).await?;
                Items { head, list, likes }
            }
            Self::Likes(id) => Items {
                head: Value::Null,
                list: blog.likes_page(meter, id, after).await?,
                likes: empty(),
            },
            Self::User(id) => {
                let user = blog.user(meter, id);
                let posts = blog.posts_of_user_page(meter, id, after);
                let (head, list) = try_join(user, posts).await?;
                Items {
                    head,
                    list,
                    likes: empty(),
                }
            }
        })
    }
}

/// Reads the items of a page in the model of the visit, and remembers its price.
pub(crate) async fn read(
    visit: &mut Visit,
    model: Model,
    subject: &Subject,
) -> Result<Items, Trouble> {
    if let Subject::Post(id) | Subject::Likes(id) | Subject::User(id) = subject
        && !text::is_id(id)
    {
        return Err(Trouble::NotFound(subject.noun()));
    }
    visit.page = Some(subject.path());
    visit.codes.extend(subject.codes());
    let after = visit.query.get("after").cloned();
    let items = subject
        .read(&visit.blog(model), &visit.meter, after.as_deref())
        .await
        .map_err(|e| missing(e, subject))?;
    if after.is_none() {
        let prices = &visit.state.prices;
        prices.remember(&subject.path(), model, &visit.meter);
        if visit
            .query
            .get("measure")
            .is_some_and(|which| which == "all")
        {
            measure_others(visit, model, subject).await;
        }
        let mut others = visit.state.site.models();
        others.retain(|other| *other != model);
        let prices = &visit.state.prices;
        prices.want(subject, &others, visit.written.is_some());
    }
    Ok(items)
}

/// Turns the absence of the subject into a page that says so.
fn missing(error: BlogError, subject: &Subject) -> Trouble {
    if error.is_not_found() {
        Trouble::NotFound(subject.noun())
    } else {
        error.into()
    }
}

/// Makes the same requests in every other present model. A model that fails keeps its old price.
async fn measure_others(visit: &Visit, current: Model, subject: &Subject) {
    let mut measurements = Vec::new();
    for model in visit.state.site.models() {
        if model == current {
            continue;
        }
        let blog = visit.blog(model);
        measurements.push(async move {
            let meter = Meter::recording();
            let result = subject.read(&blog, &meter, None).await;
            if result.is_ok() {
                let prices = &visit.state.prices;
                prices.remember(&subject.path(), model, &meter);
            }
        });
    }
    join_all(measurements).await;
}

/// A post in a list, or at the head of its page.
pub(crate) struct PostView {
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) short: String,
    pub(crate) author: Person,
    pub(crate) when: When,
    pub(crate) comments: u64,
    pub(crate) likes: u64,
}

/// A comment or a like.
struct ReactionView {
    id: String,
    author: Person,
    when: When,
    content: String,
}

fn string<'a>(item: &'a Value, name: &str) -> &'a str {
    item[name].as_str().unwrap_or_default()
}

fn author(item: &Value) -> Person {
    Person::new(string(item, "userId"), string(item, "userUsername"))
}

impl PostView {
    pub(crate) fn of(item: &Value) -> Self {
        Self {
            id: string(item, "id").to_owned(),
            title: string(item, "title").to_owned(),
            short: text::excerpt_of(item),
            author: author(item),
            when: When::of(string(item, "creationDate")),
            comments: item["commentCount"].as_u64().unwrap_or(0),
            likes: item["likeCount"].as_u64().unwrap_or(0),
        }
    }
}

impl ReactionView {
    fn of(item: &Value) -> Self {
        Self {
            id: string(item, "id").to_owned(),
            author: author(item),
            when: When::of(string(item, "creationDate")),
            content: string(item, "content").to_owned(),
        }
    }
}

#[derive(Template)]
#[template(path = "front.html")]
struct FrontPage {
    frame: Frame,
    posts: Vec<PostView>,
    next: String,
    is_continued: bool,
    /// The end of the feed of V3, and the price of the posts before.
    end_of_feed: String,
    console: Option<String>,
    why: &'static str,
}

#[derive(Template)]
#[template(path = "post.html")]
struct PostPage<'a> {
    frame: Frame,
    post: PostView,
    html: String,
    is_author: bool,
    is_liked: bool,
    likes_label: String,
    comments_label: String,
    comments: Vec<ReactionView>,
    next: String,
    is_continued: bool,
    like_token: String,
    comment_token: String,
    comment_text: &'a str,
    comment_error: &'a str,
    console: Option<String>,
    why: &'static str,
}

#[derive(Template)]
#[template(path = "likes.html")]
struct LikesPage {
    frame: Frame,
    post_id: String,
    likes: Vec<ReactionView>,
    next: String,
    is_continued: bool,
    why: &'static str,
}

#[derive(Template)]
#[template(path = "user.html")]
struct UserPage {
    frame: Frame,
    person: Person,
    posts_label: String,
    posts: Vec<PostView>,
    next: String,
    is_continued: bool,
    is_self: bool,
    is_demo: bool,
    token: String,
    console: Option<String>,
    why: &'static str,
}

/// A comment that was not accepted: the typed text and the mistake.
#[derive(Default)]
pub(crate) struct CommentMistake {
    pub(crate) text: String,
    pub(crate) mistake: String,
    pub(crate) token: Option<String>,
}

/// `GET /`
pub(crate) async fn root(visit: Visit) -> Response {
    let home = path_name(visit.state.site.home());
    Redirect::temporary(&format!("/{home}")).into_response()
}

/// `GET /{v}`
pub(crate) async fn front(mut visit: Visit, Path(v): Path<String>) -> Response {
    let result = show_front(&mut visit, &v).await;
    visit.answer(result).await
}

async fn show_front(visit: &mut Visit, v: &str) -> Result<Response, Trouble> {
    let model = visit.enter(v)?;
    visit.load_user().await?;
    visit.load_receipt().await?;
    let items = read(visit, model, &Subject::Front).await?;
    let is_continued = visit.query.contains_key("after");
    let title = if is_continued {
        "Older posts"
    } else {
        "Newest posts"
    };
    let end_of_feed = match (model, is_continued, &items.list.next) {
        (Model::V3, false, Some(_)) => end_of_feed(visit).await,
        _ => String::new(),
    };
    let page = FrontPage {
        posts: items.list.items.iter().map(PostView::of).collect(),
        frame: visit.frame(title).await,
        next: items.list.next.unwrap_or_default(),
        is_continued,
        end_of_feed,
        console: console::container_of(visit, model, "posts"),
        why: match model {
            _ if is_continued => {
                "Pages after the first ask every partition of posts in each model: posts are \
                 partitioned by their ids, not by date."
            }
            Model::V1 => {
                "V1 asks every partition for the newest posts, then reads the author and counts \
                 comments and likes of each of the 100."
            }
            Model::V2 => {
                "V2 keeps names and counts in the post, but still asks every partition for the \
                 newest posts."
            }
            Model::V3 => {
                "V3 keeps the newest 100 posts in a container of their own, so one partition \
                 answers."
            }
        },
    };
    Ok(visit.page(StatusCode::OK, &page))
}

/// Returns the sentences at the end of the feed of V3.
async fn end_of_feed(visit: &Visit) -> String {
    let blog = visit.blog(Model::V3);
    let asked = match blog.containers().get(1) {
        Some(posts) => blog.client().ranges(posts).await,
        None => return String::new(),
    };
    let price = match asked {
        // The least price of a query in one partition: the partition and two lookups.
        Ok(ranges) => format!(
            "all {}, for at least {} RU",
            text::counted(ranges.len() as u64, "partition", "partitions"),
            text::count(ranges.len() as u64 * 290 / 100),
        ),
        Err(_) => "every partition".to_owned(),
    };
    format!(
        "The container feed ends here: V3 keeps the {PAGE_ROWS} newest posts in it, so that one \
         partition answers. Older posts are read from the container posts, which asks {price}."
    )
}

/// `GET /{v}/posts/{id}`
pub(crate) async fn post(mut visit: Visit, Path((v, id)): Path<(String, String)>) -> Response {
    let result = show_post(&mut visit, &v, &id, CommentMistake::default()).await;
    visit.answer(result).await
}

/// Shows a post, with a comment that was not accepted.
pub(crate) async fn show_post(
    visit: &mut Visit,
    v: &str,
    id: &str,
    comment: CommentMistake,
) -> Result<Response, Trouble> {
    let model = visit.enter(v)?;
    visit.load_user().await?;
    visit.load_receipt().await?;
    let items = read(visit, model, &Subject::Post(id.to_owned())).await?;
    let post = PostView::of(&items.head);
    let content = string(&items.head, "content").to_owned();
    let html = visit.state.renderer.html(content).await;
    let user_id = visit.user.as_ref().map(|user| user.user_id.as_str());
    let is_by_user = |item: &Value| Some(string(item, "userId")) == user_id;
    let page = PostPage {
        html,
        is_author: is_by_user(&items.head),
        is_liked: items.likes.items.iter().any(is_by_user),
        likes_label: text::counted(post.likes, "like", "likes"),
        comments_label: text::counted(post.comments, "comment", "comments"),
        comments: items.list.items.iter().map(ReactionView::of).collect(),
        next: items.list.next.unwrap_or_default(),
        is_continued: visit.query.contains_key("after"),
        like_token: secret::random::<16>(),
        comment_token: comment.token.unwrap_or_else(secret::random::<16>),
        comment_text: &comment.text,
        comment_error: &comment.mistake,
        console: console::item_of(visit, model, "posts", id),
        frame: visit.frame(&post.title).await,
        post,
        why: match model {
            Model::V1 => {
                "V1 counts comments and likes and reads a user for each name that the page shows."
            }
            Model::V2 | Model::V3 => {
                "V2 and V3 keep the author's name and both counts in the post, so one read gives \
                 all of it."
            }
        },
    };
    let status = match comment.mistake.is_empty() {
        true => StatusCode::OK,
        false => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Ok(visit.page(status, &page))
}

/// `GET /{v}/posts/{id}/likes`
pub(crate) async fn likes(mut visit: Visit, Path((v, id)): Path<(String, String)>) -> Response {
    let result = show_likes(&mut visit, &v, &id).await;
    visit.answer(result).await
}

async fn show_likes(visit: &mut Visit, v: &str, id: &str) -> Result<Response, Trouble> {
    let model = visit.enter(v)?;
    visit.load_user().await?;
    let items = read(visit, model, &Subject::Likes(id.to_owned())).await?;
    // A post without likes is told from one that is gone; this read is the application's.
    if items.list.items.is_empty() {
        match visit.blog(model).stored_post(&visit.own, id).await {
            Err(e) if e.is_not_found() => return Err(Trouble::NotFound("post")),
            post => drop(post?),
        }
    }
    let page = LikesPage {
        frame: visit.frame("Likes").await,
        post_id: id.to_owned(),
        likes: items.list.items.iter().map(ReactionView::of).collect(),
        next: items.list.next.unwrap_or_default(),
        is_continued: visit.query.contains_key("after"),
        why: match model {
            Model::V1 => "V1 reads one user for each like.",
            Model::V2 | Model::V3 => "V2 and V3 keep the user's name in the like.",
        },
    };
    Ok(visit.page(StatusCode::OK, &page))
}

/// `GET /{v}/users/{id}`
pub(crate) async fn user(mut visit: Visit, Path((v, id)): Path<(String, String)>) -> Response {
    let result = show_user(&mut visit, &v, &id).await;
    visit.answer(result).await
}

async fn show_user(visit: &mut Visit, v: &str, id: &str) -> Result<Response, Trouble> {
    let model = visit.enter(v)?;
    visit.load_user().await?;
    visit.load_receipt().await?;
    let items = read(visit, model, &Subject::User(id.to_owned())).await?;
    let person = Person::new(id, string(&items.head, "username"));
    let is_continued = visit.query.contains_key("after");
    let count = items.list.items.len() as u64;
    let posts_label = if items.list.next.is_some() || is_continued {
        format!(
            "{} posts on this page, up to {PAGE_ROWS} on each",
            text::count(count)
        )
    } else {
        text::counted(count, "post", "posts")
    };
    let page = UserPage {
        frame: visit.frame(&person.name).await,
        posts_label,
        posts: items.list.items.iter().map(PostView::of).collect(),
        next: items.list.next.unwrap_or_default(),
        is_continued,
        is_self: visit.user.as_ref().is_some_and(|user| user.user_id == id),
        is_demo: visit.state.options.demo,
        console: console::item_of(visit, model, "users", id),
        token: secret::random::<16>(),
        person,
        why: match model {
            Model::V1 => {
                "Posts are not partitioned by user, so V1 asks every partition, then counts \
                 comments and likes of each post."
            }
            Model::V2 => "Posts are not partitioned by user, so V2 asks every partition.",
            Model::V3 => {
                "V3 keeps a short copy of each post in the partition of its author, so one \
                 partition answers."
            }
        },
    };
    Ok(visit.page(StatusCode::OK, &page))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_page_or_nothing() {
        assert!(matches!(Subject::at(""), Some(Subject::Front)));
        for path in ["x", "/", "#", "x/users/1", "/users", "/users/1/likes"] {
            assert!(Subject::at(path).is_none(), "{path}");
        }
    }
}
