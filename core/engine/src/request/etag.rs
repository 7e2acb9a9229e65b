//! Comparison of entity tags in `If-Match` and `If-None-Match`.

/// Returns true if the etag of a condition names `etag`. `*` names every etag, and the quotes may
/// be missing.
pub fn etag_matches(wanted: &str, etag: &str) -> bool {
    wanted == "*" || wanted.trim_matches('"') == etag.trim_matches('"')
}
