//! The pipelines that a process runs for a blog.

use orrery_blog::pipelines::ServiceOptions;
use orrery_blog::{Pipelines, Site};
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

/// Time that workers get to finish their reactions and to release their ranges.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Pipeline workers of this process. The first handle exists even if no worker runs, because the
/// application shows the work of other processes as well.
pub(super) struct Workers(Vec<Arc<Pipelines>>);

impl Workers {
    /// Starts workers.
    pub(super) fn start(site: &Site, count: u8) -> Self {
        let mut workers = Vec::new();
        for number in 0..count.max(1) {
            let pipelines = Pipelines::of_site(site, ServiceOptions::default());
            if number < count {
                pipelines.start();
            }
            workers.push(Arc::new(pipelines));
        }
        Workers(workers)
    }

    /// Returns the handle that the application shows and wakes.
    pub(super) fn first(&self) -> Option<Arc<Pipelines>> {
        self.0.first().cloned()
    }

    /// Lets the workers finish their reactions and release their ranges, so that other workers go
    /// on at once.
    pub(super) async fn stop(self) {
        let stopped = async {
            for pipelines in &self.0 {
                pipelines.stop().await;
            }
        };
        if tokio::time::timeout(STOP_TIMEOUT, stopped).await.is_err() {
            // If standard error is closed, the workers end without a word. Nothing is lost: others
            // take the ranges over, and every reaction can be repeated.
            let _ = writeln!(
                io::stderr(),
                "orrery: pipelines did not finish within {} s and were ended",
                STOP_TIMEOUT.as_secs()
            );
        }
    }
}
