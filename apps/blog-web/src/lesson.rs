//! The comparison of the models and the lesson.

use crate::state::AppState;
use axum::Router;

/// Returns the routes of `/compare` and `/lesson`.
pub(crate) fn router() -> Router<AppState> {
    Router::new()
}
