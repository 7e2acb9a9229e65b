//! The part of a container that its physical partitions know.
//!
//! ```text
//! settings   the definition of a container, checked; search, encryption and previous_images are
//!            its policies
//! view       the container as its partitions see it
//! tasks      the kinds of background work that a partition enters for its container
//! owners     the processes that own partitions
//! ```
//!
//! These files stand below `partition` and `catalog`: they use neither of them.

pub(crate) mod encryption;
pub(crate) mod owners;
pub(crate) mod previous_images;
pub(crate) mod search;
pub(crate) mod settings;
pub(crate) mod tasks;
pub(crate) mod view;
