//! Times of pages without other load, and the part of the application in them.
//!
//! The header `Server-Timing` of a page states the time of the whole request (`total`) and the part
//! in which the application waited for its database (`database`). The difference is what the
//! application adds.

use super::browser::Browser;
use super::html;
use super::user::post_links;
use crate::Result;
use crate::record::figure;
use crate::report::percentile;

/// Requests of each kind before the measurement.
const WARM_UP: usize = 20;

/// Measures each kind of page with a number of requests, and prints the times.
pub(super) async fn run(address: &str, requests: usize) -> Result<()> {
    let mut browser = Browser::new(address);
    let front = browser.get("/").await?;
    let posts = post_links(&front);
    let first = posts.first().ok_or("the front page lists no post")?;
    let post = browser.get(first).await?;
    let author = html::links(&post.html)
        .into_iter()
        .find(|path| path.contains("/users/"))
        .ok_or("a post without a link to its author")?;
    let likes: Vec<String> = posts.iter().map(|path| format!("{path}/likes")).collect();
    println!(
        "{:<16}{:>9}{:>10}{:>10}{:>12}{:>14}{:>14}",
        "", "requests", "p50 ms", "p99 ms", "db p50 ms", "added p50 ms", "added p99 ms"
    );
    let is_slow = [
        measure(&mut browser, "front page", &[front.path], requests).await?,
        measure(&mut browser, "post", &posts, requests).await?,
        measure(&mut browser, "user", &[author], requests).await?,
        measure(&mut browser, "likes", &likes, requests).await?,
    ];
    match is_slow.contains(&true) {
        false => Ok(()),
        true => Err("a page took 50 ms or more, or the application added more than 1 ms".into()),
    }
}

/// Measures one kind of page. Returns true if the pages are slower than they should be.
async fn measure(
    browser: &mut Browser,
    kind: &str,
    paths: &[String],
    requests: usize,
) -> Result<bool> {
    let (mut times, mut database, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..WARM_UP + requests {
        let page = browser.get(&paths[n % paths.len()]).await?;
        if page.status != 200 {
            return Err(format!("{}: status {}", page.path, page.status).into());
        }
        if n < WARM_UP {
            continue;
        }
        let (total, db) = (
            duration(&page.timing, "total"),
            duration(&page.timing, "database"),
        );
        let (Some(total), Some(db)) = (total, db) else {
            return Err(format!("{}: no times in '{}'", page.path, page.timing).into());
        };
        times.push(page.last_ms);
        database.push(db);
        added.push(total - db);
    }
    let (p99, added_p50) = (percentile(&mut times, 99.0), percentile(&mut added, 50.0));
    let p50 = percentile(&mut times, 50.0);
    figure(format!("{kind}, p50 ms"), p50);
    figure(format!("{kind}, p99 ms"), p99);
    figure(format!("{kind}, added p50 ms"), added_p50);
    println!(
        "{kind:<16}{requests:>9}{p50:>10.2}{p99:>10.2}{:>12.2}{added_p50:>14.2}{:>14.2}",
        percentile(&mut database, 50.0),
        percentile(&mut added, 99.0)
    );
    Ok(p99 >= 50.0 || added_p50 > 1.0)
}

/// Returns a duration of `Server-Timing` in milliseconds.
fn duration(timing: &str, name: &str) -> Option<f64> {
    for metric in timing.split(',') {
        let mut parts = metric.split(';').map(str::trim);
        if parts.next() == Some(name) {
            return parts
                .find_map(|part| part.strip_prefix("dur="))?
                .parse()
                .ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_read_by_name() {
        let timing = "database;desc=\"2 requests\";dur=1.25, total;dur=2";
        assert_eq!(duration(timing, "database"), Some(1.25));
        assert_eq!(duration(timing, "total"), Some(2.0));
        assert_eq!(duration(timing, "cache"), None);
    }
}
