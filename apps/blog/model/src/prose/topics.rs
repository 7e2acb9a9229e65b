//! The subjects of posts in the order of their dates.

use super::{Prose, THEMES};
use crate::random::{StreamKind, random, random_below};

/// Neighbours by date take their themes from different thirds of all themes.
const PARTS: u64 = 3;
/// Step through the pairs of title and subject of a theme.
const STEP: u64 = 27;
/// Bytes of a title: at most one index term, and at most two lines.
const TITLE_BYTES: std::ops::RangeInclusive<usize> = 20..=40;

/// The subject of a post.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Topic {
    /// Number of the theme.
    pub(super) theme: usize,
    /// The subject without its article.
    pub(super) subject: &'static str,
    /// The title of the post.
    pub(crate) title: String,
    /// The place of the first comment in the order of their sentences.
    pub(super) order: u64,
}

/// The topics of one seed.
#[derive(Debug)]
pub(crate) struct Topics {
    seed: u64,
}

impl Topics {
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns the topic of the post with this rank by date. Three posts in a row have different
    /// themes, and posts of one theme near each other have different titles.
    pub(crate) fn of(&self, rank: u64) -> Topic {
        let prose = Prose::get();
        let mut random = random(self.seed, StreamKind::Texts, rank);
        let (part, turn) = (rank % PARTS, rank / PARTS);
        let size = THEMES.len() as u64 / PARTS;
        let theme = (part * size + random_below(&mut random, size)) as usize;
        let sections = &prose.themes[theme];
        let (titles, subjects) = (sections.of("titles"), sections.of("subjects"));
        let count = titles.len().max(1) as u64;
        let first = turn * STEP + self.seed % 64;
        let mut topic = Topic {
            theme,
            subject: "",
            title: String::new(),
            order: random_below(&mut random, 1 << 20),
        };
        // Every title fits with most subjects, which a test checks.
        for pair in first..first + (titles.len() * subjects.len()) as u64 {
            let (title, shift) = (pair % count, pair / count % count);
            let place = (title + shift) as usize % subjects.len().max(1);
            topic.subject = subjects.get(place).copied().unwrap_or_default();
            let line = titles.get(title as usize).copied().unwrap_or_default();
            topic.title = prose.filled(&mut random, &topic, line);
            if TITLE_BYTES.contains(&topic.title.len()) {
                break;
            }
        }
        topic
    }
}
