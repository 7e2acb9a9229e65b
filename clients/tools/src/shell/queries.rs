//! Queries of a session: pages of rows, costs, plans.

use super::fault::{ShellError, of_query};
use super::session::{Session, note, say};
use super::split::is_query;
use crate::form::screen_width;
use crate::query::{Cursor, QueryOptions, QueryOutcome};
use orrery_client::QueryText;

impl Session {
    /// Runs a query and prints its first rows.
    pub(super) async fn query(&mut self, text: &str) -> Result<(), ShellError> {
        let container = self.container_link()?;
        self.query_in(container, text).await
    }

    /// Runs a query in the container of a link.
    pub(super) async fn query_in(
        &mut self,
        container: String,
        text: &str,
    ) -> Result<(), ShellError> {
        let options = self.query_options(container, text, false);
        self.last_query = Some(text.to_owned());
        self.cursor = Some(Cursor::new(options));
        self.page().await
    }

    /// Prints the next rows of the last query.
    pub(super) async fn more(&mut self) -> Result<(), ShellError> {
        match self.cursor {
            Some(_) => self.page().await,
            None => Err("no query has rows left".to_owned().into()),
        }
    }

    /// Runs a query, or the last one, and prints metrics and plan.
    pub(super) async fn plan(&mut self, text: &str) -> Result<(), ShellError> {
        let text = match (text.is_empty(), &self.last_query) {
            (false, _) if is_query(text) => text.to_owned(),
            (true, Some(text)) => text.clone(),
            _ => return Err("the form is .plan SELECT ...".to_owned().into()),
        };
        let options = self.query_options(self.container_link()?, &text, true);
        let mut cursor = Cursor::new(options);
        let outcome = self.fetch(&mut cursor, &text).await?;
        let mut told = String::new();
        for (title, lines) in &outcome.explanations {
            told.push_str(&format!("{title}:\n"));
            for line in lines.lines() {
                told.push_str(&format!("  {line}\n"));
            }
        }
        say(&told)?;
        self.tell_costs(&outcome);
        self.last_query = Some(text);
        Ok(())
    }

    fn query_options(&self, container: String, text: &str, explains: bool) -> QueryOptions {
        QueryOptions {
            container,
            query: QueryText::new(text),
            partition_key: None,
            max_rows: self.options.rows_max,
            max_charge: None,
            explains,
            counts_partitions: true,
        }
    }

    /// Prints the next rows of the cursor, and drops the cursor behind the last one.
    async fn page(&mut self) -> Result<(), ShellError> {
        let Some(mut cursor) = self.cursor.take() else {
            return Ok(());
        };
        let text = self.last_query.clone().unwrap_or_default();
        let outcome = self.fetch(&mut cursor, &text).await?;
        say(&self.options.form.text(&outcome.rows, screen_width()))?;
        self.names.add_rows(&outcome.rows);
        self.tell_costs(&outcome);
        if outcome.is_cut && !cursor.is_done() {
            note("there may be more items: .more prints the next ones");
            self.cursor = Some(cursor);
        }
        Ok(())
    }

    async fn fetch(&mut self, cursor: &mut Cursor, text: &str) -> Result<QueryOutcome, ShellError> {
        let mut outcome = QueryOutcome::default();
        let fetched = cursor.fetch(&self.client, &mut outcome).await;
        // A query that failed on a later page has its costs too.
        self.totals.rows += outcome.rows.len() as u64;
        self.totals.charge += outcome.charge;
        self.totals.elapsed += outcome.elapsed;
        match fetched {
            Ok(()) => Ok(outcome),
            Err(error) => Err(of_query(&error, text)),
        }
    }

    /// Prints the costs of a query, and before them the hints for it.
    fn tell_costs(&self, outcome: &QueryOutcome) {
        for hint in &outcome.hints {
            note(&format!("hint: {hint}"));
        }
        if !self.options.tells_costs {
            return;
        }
        let all = outcome.partitions;
        let partitions = match outcome.asked.len() {
            0 => all.to_string(),
            asked => format!("{asked} of {}", all.max(asked)),
        };
        note(&outcome.costs(&partitions));
    }
}
