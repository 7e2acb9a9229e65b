//! Chapter 1: the price of one more comment, if a post contains its comments and if each comment is
//! an item of its own, measured in the database of the lab.

use super::{Bench, Shell};
use crate::lesson::figures;
use crate::lesson::parts::{Picture, Table, rendered};
use askama::Template;
use orrery_blog::BlogError;
use orrery_blog::lesson::examples::EmbeddingPoint;

/// Height of a pair of bars and the distance to the next in the drawing.
const ROW: usize = 56;

#[derive(Template)]
#[template(path = "lesson/trials/embedding.html")]
struct View {
    shell: Shell,
    /// Markup; empty before the first run.
    picture: String,
    /// The last point in words: comments, embedded charge, referenced charge.
    last: Option<(String, String, String)>,
}

#[derive(Template)]
#[template(path = "lesson/trials/embedding-bars.html")]
struct Bars {
    height: usize,
    rows: Vec<Row>,
}

struct Row {
    y: usize,
    text_y: usize,
    second_y: usize,
    comments: String,
    embedded: String,
    embedded_width: String,
    referenced: String,
    referenced_width: String,
}

/// Returns the element before the first run.
pub(super) fn show(bench: &Bench<'_>) -> String {
    rendered(&View {
        shell: bench.shell.clone(),
        picture: String::new(),
        last: None,
    })
}

/// Measures.
pub(super) async fn run(bench: &Bench<'_>) -> Result<String, BlogError> {
    let points = bench.examples().embedding(&bench.fresh_name()).await?;
    let last = points.last().map(|point| {
        (
            point.comments.to_string(),
            figures::exact_ru(point.embedded_write.ru()),
            figures::exact_ru(point.referenced_write.ru()),
        )
    });
    let said = match &last {
        Some((comments, embedded, referenced)) => format!(
            "At {comments} comments, one more costs {embedded} RU in the post and {referenced} RU \
             as an item."
        ),
        None => String::new(),
    };
    Ok(rendered(&View {
        shell: bench.shell.saying(said),
        picture: picture(&points),
        last,
    }))
}

fn picture(points: &[EmbeddingPoint]) -> String {
    let charges = points.iter().map(|point| point.embedded_write.ru());
    let most = charges.fold(1.0, f64::max);
    // The longest bar leaves room for its figure.
    let width = |ru: f64| format!("{:.2}%", (ru / most * 78.0).max(0.4));
    let mut table = Table::new(&[
        "Comments before",
        "Size of the post with them",
        "One more in the post, RU",
        "One more as an item, RU",
        "Read of the post with them, RU",
        "Read of the post alone, RU",
    ]);
    let mut rows = Vec::new();
    for (place, point) in points.iter().enumerate() {
        let [embedded, referenced, read, read_alone] = [
            point.embedded_write,
            point.referenced_write,
            point.embedded_read,
            point.referenced_read,
        ]
        .map(|charge| figures::exact_ru(charge.ru()));
        let comments = point.comments.to_string();
        let bytes = figures::bytes(point.bytes as f64);
        table.row(&[
            &comments,
            &bytes,
            &embedded,
            &referenced,
            &read,
            &read_alone,
        ]);
        rows.push(Row {
            y: place * ROW + 18,
            text_y: place * ROW + 12,
            second_y: place * ROW + 34,
            comments,
            embedded_width: width(point.embedded_write.ru()),
            referenced_width: width(point.referenced_write.ru()),
            embedded,
            referenced,
        });
    }
    Picture {
        kind: "embedding",
        title: "The price of one more comment, in RU".to_owned(),
        description: "A comment inside the post costs more with each comment before it. A comment \
                      of its own always costs the same."
            .to_owned(),
        drawing: rendered(&Bars {
            height: rows.len() * ROW,
            rows,
        }),
        table,
    }
    .html()
}
