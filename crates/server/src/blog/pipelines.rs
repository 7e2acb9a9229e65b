//! The pipelines that a process runs for a blog.

use orrery_blog::Site;

/// Pipeline workers of this process.
pub(super) struct Workers {}

impl Workers {
    /// Starts workers.
    pub(super) fn start(site: &Site, count: u8) -> Self {
        let _ = (site, count);
        Workers {}
    }

    /// Lets the workers finish their batches and release their leases.
    pub(super) async fn stop(self) {}
}
