//! The paths and methods that the server has, for tests and tools outside of this crate.

use crate::operations;
use crate::route::ROUTES;

/// A path of the protocol with its methods.
#[derive(Clone, Debug)]
pub struct KnownRoute {
    /// Segments; `*` stands for an id.
    pub pattern: &'static [&'static str],
    /// The methods of the path, in the order in which a 405 lists them.
    pub methods: Vec<&'static str>,
    /// The resource type in the string to sign.
    pub signed_as: &'static str,
    /// The number of leading segments that form the link in the string to sign, if the path is by
    /// name.
    pub link_segments: usize,
}

impl KnownRoute {
    /// Returns true if the path addresses a feed and not one resource.
    pub fn is_feed(&self) -> bool {
        self.pattern.last().is_some_and(|last| *last != "*")
    }
}

/// Returns every path that the server knows, the most frequent first.
pub fn known_routes() -> impl Iterator<Item = KnownRoute> {
    ROUTES.iter().map(|route| KnownRoute {
        pattern: route.pattern,
        methods: operations::allowed_methods(route.target),
        signed_as: route.signed_as,
        link_segments: route.link_segments,
    })
}
