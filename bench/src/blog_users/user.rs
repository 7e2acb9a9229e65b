//! A simulated user: reads and writes as a browser without JavaScript does, and checks each answer.

use super::browser::{Browser, Page};
use super::html::{self, Form};
use super::ledger::{CommentEntry, Ledger, PostEntry};
use crate::random::Random;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages of comments that are looked through for a comment.
const COMMENT_PAGES_MAX: usize = 100;
/// Password of all simulated users.
const PASSWORD: &str = "correct horse battery staple";
/// Posts in the list of the newest posts.
const FEED_LENGTH: usize = 100;

/// The result of an action; an error describes the first wrong answer.
type Done = Result<(), String>;

/// A simulated user.
pub(crate) struct User {
    number: usize,
    /// Part of all names of a run, so that runs on one blog do not meet.
    run: String,
    browser: Browser,
    random: Random,
    ledger: Arc<Ledger>,
    username: String,
    /// Number of the next comment, post or name.
    next: u64,
    /// Ids of the user's own posts that are not deleted.
    posts: Vec<String>,
}

/// The actions of a user, with their frequencies.
const ACTIONS: [(&str, u32); 12] = [
    ("front page", 20),
    ("read a post", 20),
    ("read a user", 8),
    ("read likes", 4),
    ("read another model", 2),
    ("comment", 16),
    ("like", 10),
    ("write", 6),
    ("edit", 5),
    ("comment twice", 4),
    ("rename", 3),
    ("delete", 2),
];

impl User {
    /// Creates a user who has not signed up.
    pub(crate) fn new(
        number: usize,
        run: &str,
        address: &str,
        seed: u64,
        ledger: Arc<Ledger>,
    ) -> Self {
        Self {
            number,
            run: run.to_owned(),
            browser: Browser::new(address),
            random: Random::new(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            ledger,
            username: String::new(),
            next: 0,
            posts: Vec::new(),
        }
    }

    /// Signs up and acts until `end`, with pauses of about `pause`.
    pub(crate) async fn live(mut self, end: Instant, pause: Duration) {
        loop {
            match self.sign_up().await {
                Ok(()) => break,
                Err(cause) => self.ledger.fail("sign up", cause),
            }
            if Instant::now() >= end {
                return;
            }
        }
        self.run_action("write").await;
        while Instant::now() < end {
            let pause = pause.mul_f64(0.5 + self.random.fraction());
            tokio::time::sleep(pause).await;
            let action = self.random.pick_weighted(&ACTIONS);
            self.run_action(action).await;
        }
    }

    async fn run_action(&mut self, action: &'static str) {
        let done = match action {
            "front page" => self.front_page().await.map(drop),
            "read a post" => self.read_post().await,
            "read a user" => self.read_user().await,
            "read likes" => self.read_likes().await,
            "read another model" => self.read_another_model().await,
            "comment" => self.comment(false).await,
            "comment twice" => self.comment(true).await,
            "like" => self.like().await,
            "edit" => self.edit().await,
            "rename" => self.rename().await,
            "delete" => self.delete().await,
            _ => self.write().await,
        };
        if let Err(cause) = done {
            let who = self.username.clone();
            self.ledger.fail(action, format!("{who}: {cause}"));
        }
    }

    /// Returns a word that no other user or action has, and that is part of no other such word.
    fn fresh_word(&mut self) -> String {
        self.next += 1;
        format!("{}u{}n{}z", self.run, self.number, self.next)
    }

    async fn sign_up(&mut self) -> Done {
        let username = self.fresh_word();
        let page = self.page("sign-up form", "/signup").await?;
        let form = form_of(&page, "/signup")?;
        let form = form.with("username", &username).with("password", PASSWORD);
        self.note_name(&username, false);
        let page = self.submit("sign up", &form).await?;
        expect_status(&page, 200)?;
        expect_text(&page, &username)?;
        self.note_name(&username, true);
        self.username = username;
        Ok(())
    }

    /// Records a name; a certain name replaces all others.
    fn note_name(&self, username: &str, is_certain: bool) {
        let mut books = self.ledger.open();
        let names = books.names.entry(self.number).or_default();
        if is_certain {
            names.clear();
        }
        names.push(username.to_owned());
    }

    /// Requests the front page and returns the paths of its posts.
    async fn front_page(&mut self) -> Result<Vec<String>, String> {
        let page = self.page("front page", "/").await?;
        expect_status(&page, 200)?;
        let times = html::times(&page.html, "posts", "/ol");
        if times.len() > FEED_LENGTH {
            return Err(format!("the front page lists {} posts", times.len()));
        }
        if !times.windows(2).all(|pair| pair[0] >= pair[1]) {
            return Err("the posts of the front page are not newest first".into());
        }
        let posts = post_links(&page);
        if posts.is_empty() {
            return Err(format!("{}: the front page lists no post", page.path));
        }
        Ok(posts)
    }

    /// Returns a post of the front page.
    async fn some_post(&mut self) -> Result<String, String> {
        let posts = self.front_page().await?;
        Ok(self.random.pick(&posts).clone())
    }

    /// Opens a post of the front page. `None` if a user has deleted the post meanwhile.
    async fn open_post(&mut self) -> Result<Option<Page>, String> {
        let path = self.some_post().await?;
        let page = self.page("post", &path).await?;
        if is_gone(&page) && self.ledger.is_deleted(id_of(&path)) {
            return Ok(None);
        }
        expect_status(&page, 200)?;
        if html::heading(&page.html).is_none_or(|title| title.is_empty()) {
            return Err(format!("{path}: a post without a title"));
        }
        Ok(Some(page))
    }

    async fn read_post(&mut self) -> Done {
        self.open_post().await.map(drop)
    }

    async fn read_user(&mut self) -> Done {
        let Some(page) = self.open_post().await? else {
            return Ok(());
        };
        let author = html::links(&page.html)
            .into_iter()
            .find(|path| path.contains("/users/"))
            .ok_or_else(|| format!("{}: no link to the author", page.path))?;
        let page = self.page("user", &author).await?;
        expect_status(&page, 200)
    }

    async fn read_likes(&mut self) -> Done {
        let path = format!("{}/likes", self.some_post().await?);
        let page = self.page("likes", &path).await?;
        if is_gone(&page) && self.ledger.is_deleted(id_of(&path)) {
            return Ok(());
        }
        expect_status(&page, 200)
    }

    /// Requests a post in another model, if the blog has more than one.
    async fn read_another_model(&mut self) -> Done {
        let path = self.some_post().await?;
        let model = 1 + self.random.below(3);
        let Some(rest) = path.get(3..) else {
            return Err(format!("{path} is not the path of a post"));
        };
        let page = self.page("post", &format!("/v{model}{rest}")).await?;
        if is_gone(&page) && self.ledger.is_deleted(id_of(&path)) {
            return Ok(());
        }
        expect_status(&page, 200)
    }

    async fn write(&mut self) -> Done {
        let title = self.fresh_word();
        let home = self.page("front page", "/").await?;
        let path = html::links(&home.html)
            .into_iter()
            .find(|path| path.ends_with("/write"))
            .ok_or("the front page has no link to write a post")?;
        let page = self.page("editor", &path).await?;
        let form = form_with_title(&page)?
            .with("title", &title)
            .with("content", &format!("# {title}\n\nA *new* post <b>.</b>"))
            .with("intent", "publish");
        let page = self.submit("write", &form).await?;
        expect_status(&page, 200)?;
        expect_heading(&page, &title)?;
        if page.html.contains("post <b>.</b>") {
            return Err(format!("{}: HTML of a post is not escaped", page.path));
        }
        let id = id_of(&page.path).to_owned();
        let entry = PostEntry {
            author: self.number,
            titles: vec![title],
            is_deleted: false,
        };
        self.ledger.open().posts.insert(id.clone(), entry);
        self.posts.push(id);
        Ok(())
    }

    /// Opens one of the user's own posts, or writes one.
    async fn open_own_post(&mut self) -> Result<Option<Page>, String> {
        if self.posts.is_empty() {
            self.write().await?;
            return Ok(None);
        }
        let id = self.random.pick(&self.posts).clone();
        let home = self.page("front page", "/").await?;
        let model = home.path.get(..3).unwrap_or("/v3").to_owned();
        let page = self.page("post", &format!("{model}/posts/{id}")).await?;
        expect_status(&page, 200)?;
        Ok(Some(page))
    }

    async fn edit(&mut self) -> Done {
        let title = self.fresh_word();
        let Some(page) = self.open_own_post().await? else {
            return Ok(());
        };
        let id = id_of(&page.path).to_owned();
        let path = link_ending_with(&page, "/edit")?;
        let page = self.page("editor", &path).await?;
        let form = form_with_title(&page)?
            .with("title", &title)
            .with("content", &format!("The text of {title}."))
            .with("intent", "publish");
        self.note_title(&id, &title, false);
        let page = self.submit("edit", &form).await?;
        expect_status(&page, 200)?;
        expect_heading(&page, &title)?;
        self.note_title(&id, &title, true);
        Ok(())
    }

    /// Records a title of an own post; a certain title replaces all others.
    fn note_title(&self, id: &str, title: &str, is_certain: bool) {
        let mut books = self.ledger.open();
        if let Some(post) = books.posts.get_mut(id) {
            if is_certain {
                post.titles.clear();
            }
            post.titles.push(title.to_owned());
        }
    }

    /// Comments on a post of the front page; if `twice` is true, the form is sent by two tabs at
    /// the same time. The comment must be there exactly once.
    async fn comment(&mut self, twice: bool) -> Done {
        let Some(page) = self.open_post().await? else {
            return Ok(());
        };
        let tag = self.fresh_word();
        let post = id_of(&page.path).to_owned();
        let form = form_of(&page, "/comments")?;
        let form = form.with("content", &format!("{tag} says <i>so</i>"));
        let entry = CommentEntry {
            post: post.clone(),
            tag: tag.clone(),
            is_certain: false,
        };
        let place = {
            let mut books = self.ledger.open();
            books.comments.push(entry);
            books.comments.len() - 1
        };
        let page = if twice {
            let mut tab = self.browser.tab();
            let (first, second) = tokio::join!(self.browser.submit(&form), tab.submit(&form));
            self.check_comment_answer(&second?, &post)?;
            first?
        } else {
            self.submit("comment", &form).await?
        };
        if !self.check_comment_answer(&page, &post)? {
            return Ok(());
        }
        self.ledger.open().comments[place].is_certain = true;
        self.expect_comment_once(page, &tag, &post).await
    }

    /// Returns true if a comment was accepted, and false if its post was deleted meanwhile.
    fn check_comment_answer(&self, page: &Page, post: &str) -> Result<bool, String> {
        if is_gone(page) && self.ledger.is_deleted(post) {
            return Ok(false);
        }
        expect_status(page, 200)?;
        Ok(true)
    }

    /// Looks for a comment on all pages of the comments of a post.
    async fn expect_comment_once(&mut self, first: Page, tag: &str, post: &str) -> Done {
        let mut page = first;
        let mut found = 0;
        for _ in 0..COMMENT_PAGES_MAX {
            found += page.html.matches(tag).count();
            if page.html.contains(&format!("{tag} says <i>")) {
                return Err(format!("{}: HTML of a comment is not escaped", page.path));
            }
            let Some(next) = html::next_page(&page.html) else {
                break;
            };
            page = self.page("comments", &next).await?;
            if is_gone(&page) && self.ledger.is_deleted(post) {
                return Ok(());
            }
            expect_status(&page, 200)?;
        }
        match found {
            1 => Ok(()),
            _ => Err(format!(
                "{}: the comment {tag} is there {found} times",
                page.path
            )),
        }
    }

    async fn like(&mut self) -> Done {
        let Some(page) = self.open_post().await? else {
            return Ok(());
        };
        let post = id_of(&page.path).to_owned();
        let form = form_of(&page, "/likes")?;
        let key = (post.clone(), self.number);
        self.ledger.open().likes.entry(key.clone()).or_insert(false);
        let page = self.submit("like", &form).await?;
        if is_gone(&page) && self.ledger.is_deleted(&post) {
            return Ok(());
        }
        expect_status(&page, 200)?;
        self.ledger.open().likes.insert(key, true);
        Ok(())
    }

    async fn rename(&mut self) -> Done {
        let username = self.fresh_word();
        let page = self.page("profile", "/profile").await?;
        let form = form_of(&page, "/profile")?.with("username", &username);
        self.note_name(&username, false);
        let page = self.submit("rename", &form).await?;
        expect_status(&page, 200)?;
        expect_text(&page, &username)?;
        self.note_name(&username, true);
        self.username = username;
        Ok(())
    }

    async fn delete(&mut self) -> Done {
        let Some(page) = self.open_own_post().await? else {
            return Ok(());
        };
        let post_path = page.path.clone();
        let id = id_of(&post_path).to_owned();
        let path = link_ending_with(&page, "/delete")?;
        let page = self.page("delete form", &path).await?;
        let form = form_of(&page, "/delete")?;
        {
            let mut books = self.ledger.open();
            books.deleted.insert(id.clone());
            if let Some(post) = books.posts.get_mut(&id) {
                post.is_deleted = true;
            }
        }
        self.posts.retain(|own| *own != id);
        let page = self.submit("delete", &form).await?;
        expect_status(&page, 200)?;
        let page = self.page("deleted post", &post_path).await?;
        match is_gone(&page) {
            true => Ok(()),
            false => Err(format!(
                "{post_path}: a deleted post has status {}",
                page.status
            )),
        }
    }

    /// Requests a page and records its time.
    async fn page(&mut self, kind: &'static str, path: &str) -> Result<Page, String> {
        let page = self.browser.get(path).await?;
        self.ledger.time(kind, page.last_ms);
        Ok(page)
    }

    /// Sends a form and records the time of the write.
    async fn submit(&mut self, kind: &'static str, form: &Form) -> Result<Page, String> {
        let page = self.browser.submit(form).await?;
        self.ledger.time(kind, page.first_ms);
        Ok(page)
    }
}

/// Returns the paths of the posts to which a page links.
pub(crate) fn post_links(page: &Page) -> Vec<String> {
    let mut posts = html::links(&page.html);
    posts.retain(|path| match path.split_once("/posts/") {
        Some((model, id)) => model.len() == 3 && !id.contains(['/', '?', '#']),
        None => false,
    });
    posts.dedup();
    posts
}

/// Returns the id of the post to which a path leads.
fn id_of(path: &str) -> &str {
    let rest = match path.split_once("/posts/") {
        Some((_, rest)) => rest,
        None => path,
    };
    rest.split(['/', '?']).next().unwrap_or_default()
}

/// Returns true if the page says that a post does not exist (any more).
fn is_gone(page: &Page) -> bool {
    matches!(page.status, 404 | 409 | 410)
}

fn expect_status(page: &Page, status: u16) -> Done {
    if page.status == status {
        return Ok(());
    }
    let heading = html::heading(&page.html).unwrap_or_default();
    Err(format!("{}: status {} ({heading})", page.path, page.status))
}

fn expect_text(page: &Page, text: &str) -> Done {
    match page.html.contains(text) {
        true => Ok(()),
        false => Err(format!("{}: the page does not show '{text}'", page.path)),
    }
}

fn expect_heading(page: &Page, heading: &str) -> Done {
    match html::heading(&page.html) {
        Some(shown) if shown == heading => Ok(()),
        shown => Err(format!(
            "{}: the heading is {shown:?} instead of '{heading}'",
            page.path
        )),
    }
}

fn form_of(page: &Page, suffix: &str) -> Result<Form, String> {
    html::form(&page.html, suffix).ok_or_else(|| {
        let heading = html::heading(&page.html).unwrap_or_default();
        format!(
            "{}: no form for '{suffix}' (status {}, {heading})",
            page.path, page.status
        )
    })
}

/// Returns the form of the editor.
fn form_with_title(page: &Page) -> Result<Form, String> {
    html::forms(&page.html)
        .into_iter()
        .find(|form| form.fields.iter().any(|(name, _)| name == "title"))
        .ok_or_else(|| {
            format!(
                "{}: no form with a title (status {})",
                page.path, page.status
            )
        })
}

fn link_ending_with(page: &Page, suffix: &str) -> Result<String, String> {
    html::links(&page.html)
        .into_iter()
        .find(|path| path.ends_with(suffix))
        .ok_or_else(|| format!("{}: no link to '{suffix}'", page.path))
}
