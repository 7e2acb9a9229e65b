//! Entity tags as clients send them in conditions.

/// Whether a client's etag is the item's: `*` is any, quotes may be missing.
pub fn etag_matches(wanted: &str, etag: &str) -> bool {
    wanted == "*" || wanted.trim_matches('"') == etag.trim_matches('"')
}
