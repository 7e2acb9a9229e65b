//! Chapter 3: `createComment` is run in the database of the lab, and its transaction is shown step
//! by step with the items before and after. The run can be made to fail in its last step.

use super::{Bench, Shell};
use crate::lesson::figures;
use crate::lesson::parts::{Item, Script, rendered};
use askama::Template;
use orrery_blog::BlogError;
use orrery_blog::lesson::examples::CommentRun;
use orrery_blog::lesson::scripts;
use serde_json::Value;

#[derive(Template)]
#[template(path = "lesson/trials/comment.html")]
struct View {
    shell: Shell,
    code: String,
    steps: Vec<Step>,
    result: Option<Outcome>,
}

/// A step of the procedure with the items as they are after it.
struct Step {
    number: usize,
    title: &'static str,
    about: String,
    /// Markup.
    items: Vec<String>,
    is_failed: bool,
}

struct Outcome {
    charge: String,
    around: String,
    partition: String,
    count_before: String,
    count_after: String,
    comments: usize,
    /// The refusal in words; empty if the run succeeded.
    refusal: String,
}

/// Returns the code with the lines of each step.
fn code() -> String {
    Script::new("createComment", scripts::CREATE_COMMENT)
        .open()
        .step("collection.readDocument", 1)
        .step("post.commentCount++", 2)
        .step("collection.replaceDocument", 3)
        .step("collection.createDocument", 4)
        .step("getContext().getResponse()", 5)
        .html()
}

/// Returns the element before the first run.
pub(super) fn show(bench: &Bench<'_>) -> String {
    rendered(&View {
        shell: bench.shell.clone(),
        code: code(),
        steps: Vec::new(),
        result: None,
    })
}

/// Runs the procedure.
pub(super) async fn run(bench: &Bench<'_>) -> Result<String, BlogError> {
    let fails = bench.form.text("end") == "fail";
    let run = bench.examples().comment(&bench.fresh_name(), fails).await?;
    let outcome = outcome(&run);
    let said = match run.refusal.is_some() {
        true => format!(
            "The procedure failed, and nothing of it stays: the count is {}.",
            outcome.count_after
        ),
        false => format!(
            "The procedure succeeded for {} RU: the count is {}.",
            outcome.charge, outcome.count_after
        ),
    };
    Ok(rendered(&View {
        shell: bench.shell.saying(said),
        code: code(),
        steps: steps(&run),
        result: Some(outcome),
    }))
}

fn outcome(run: &CommentRun) -> Outcome {
    Outcome {
        charge: figures::exact_ru(run.procedure.charge.ru()),
        around: figures::exact_ru(run.around.ru()),
        partition: run.procedure.range.clone(),
        count_before: run.before["commentCount"].to_string(),
        count_after: run.after["commentCount"].to_string(),
        comments: run.comments.len(),
        refusal: match &run.refusal {
            Some((status, sub_status, _)) => format!("{status}/{sub_status}"),
            None => String::new(),
        },
    }
}

/// Returns the post of the example as markup, changed from `before`.
fn post(caption: &str, item: &Value, before: &Value) -> String {
    Item::new(caption, item)
        .copy("userUsername", "username in users")
        .copy("commentCount", "the number of comments")
        .copy("likeCount", "the number of likes")
        .changed_from(before)
        .html()
}

fn comment(caption: &str, item: &Value, is_new: bool) -> String {
    let item = Item::new(caption, item).copy("userUsername", "username in users");
    if is_new {
        item.new_item().html()
    } else {
        item.html()
    }
}

/// Returns the steps. The states between the first and the last are those inside the transaction,
/// which no other request sees.
fn steps(run: &CommentRun) -> Vec<Step> {
    let mut raised = run.before.clone();
    raised["commentCount"] = (run.before["commentCount"].as_u64().unwrap_or_default() + 1).into();
    let stored = post("post, stored", &run.before, &run.before);
    let inside = post("post, inside the transaction", &raised, &run.before);
    let step = |number, title, about: &str, items| Step {
        number,
        title,
        about: about.to_owned(),
        items,
        is_failed: false,
    };
    let mut steps = vec![
        step(
            1,
            "Read the post",
            "The procedure reads the post by its id.",
            vec![stored],
        ),
        step(
            2,
            "Raise the count",
            "In the memory of the procedure; nothing is written.",
            vec![inside.clone()],
        ),
        step(
            3,
            "Replace the post",
            "Written in the transaction. Other readers see the old post.",
            vec![inside.clone()],
        ),
    ];
    steps.extend(last_steps(run, inside));
    steps
}

/// Returns the creation of the comment and the end of the transaction.
fn last_steps(run: &CommentRun, inside: String) -> [Step; 2] {
    let stored = post("post, stored", &run.after, &run.before);
    let is_failed = run.refusal.is_some();
    let step = |number, title, about: &str, items| Step {
        number,
        title,
        about: about.to_owned(),
        items,
        is_failed,
    };
    if is_failed {
        let taken = comment("comment that was to be created", &run.comment, false);
        let kept = run.comments.iter();
        let kept = kept.map(|item| comment("comment, stored", item, false));
        return [
            step(
                4,
                "Create the comment: refused",
                "The id of the new comment is taken: 409, and the procedure throws.",
                vec![inside, taken],
            ),
            step(
                5,
                "Nothing stays",
                "The transaction is undone. Read again, the post has its old count.",
                [vec![stored], kept.collect()].concat(),
            ),
        ];
    }
    let new = comment("comment, inside the transaction", &run.comment, true);
    [
        step(
            4,
            "Create the comment",
            "Both items lie in one logical partition.",
            vec![inside, new],
        ),
        step(
            5,
            "Commit",
            "Both changes become visible at once. Read again, count and comments agree.",
            vec![stored, comment("comment, stored", &run.comment, true)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_blog::{Charge, Operation, RequestRecord};
    use serde_json::json;

    fn example(fails: bool) -> CommentRun {
        let before = json!({"id": "p", "commentCount": 1});
        let procedure = RequestRecord {
            operation: Operation::Execute,
            container: "dbs/lab/colls/examples".to_owned(),
            text: "createComment".to_owned(),
            key: Some("p".to_owned()),
            range: "0".to_owned(),
            status: 200,
            charge: Charge(1527),
            ms: 3.0,
            items: None,
            index_use: None,
            throttled: 0,
            read: Vec::new(),
        };
        CommentRun {
            after: json!({"id": "p", "commentCount": if fails { 1 } else { 2 }}),
            before,
            comment: json!({"id": "c"}),
            comments: vec![json!({"id": "c"})],
            refusal: fails.then(|| (400, 409, "conflict".to_owned())),
            procedure,
            around: Charge(2000),
        }
    }

    #[test]
    fn a_run_has_five_steps_and_marks_the_raised_count() {
        let steps = steps(&example(false));
        assert_eq!(steps.len(), 5);
        assert!(steps[4].items[0].contains("was 1"));
        assert!(steps.iter().all(|step| !step.is_failed));
    }

    #[test]
    fn after_a_failure_the_last_step_shows_the_old_count() {
        let steps = steps(&example(true));
        assert!(steps[2].items[0].contains("was 1"));
        assert!(!steps[4].items[0].contains("was 1"));
        assert_eq!(outcome(&example(true)).refusal, "400/409");
    }
}
