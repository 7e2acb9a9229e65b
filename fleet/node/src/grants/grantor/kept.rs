//! Partitions that stay with the leaseholder for the time of a move.

use super::Grantor;
use orrery_model::sync::lock;
use std::sync::Arc;

/// A partition that is not given to another node while it is moved to another cluster.
pub(super) struct KeptForMove {
    pub(super) grantor: Arc<Grantor>,
    pub(super) partition: u64,
}

impl Drop for KeptForMove {
    fn drop(&mut self) {
        let mut state = lock(&self.grantor.state);
        if let Some(moves) = state.moving.get_mut(&self.partition) {
            *moves -= 1;
            if *moves == 0 {
                state.moving.remove(&self.partition);
            }
        }
    }
}
