//! Texts of the data set that read like the blog of a small town: titles, posts, comments, names.
//!
//! Each theme is a text file of this folder with sentences of its own. A sentence may have slots,
//! which are filled with words that fit in every place:
//! ```text
//! {it}    the subject with its article, singular: the rye loaf     {It}    at the beginning
//! {bare}  the subject without an article: plum jam                 {Bare}  at the beginning
//! {n}     a number word from three upward     {day}  a day of the week
//! {friend}  a first name, never followed by a pronoun     {place}  a place with its preposition
//! ```
//! Promises, which the tests check:
//! 1. Equal random numbers give equal texts, and a text is at most [`SLACK`] bytes longer or
//!    shorter than asked for, if posts have at least 200 bytes and comments 240.
//! 2. A post has three to six paragraphs; no sentence comes twice in a text.
//! 3. A comment names the subject of its post or tells of the theme.
//!
//! Left out: the choice of the themes of neighbouring posts, see [`Topics`].

mod fitting;
mod names;
#[cfg(test)]
mod tests;
mod topics;

pub(crate) use names::Names;
pub(crate) use topics::{Topic, Topics};

use crate::random::random_below;
use fitting::{Frame, fitted};
use rand_pcg::Pcg32;
use std::sync::LazyLock;

/// Bytes by which a text may be longer or shorter than asked for.
pub(crate) const SLACK: usize = 8;
/// Attempts with other sentences at a text of the right length.
const ATTEMPTS: u64 = 24;
/// Bytes of a post from which on it may have a list.
const LIST_FROM: usize = 380;
/// Bytes of a comment from which on it has two paragraphs.
const TWO_PARAGRAPHS_FROM: usize = 450;

/// The files of the themes. Themes of one third are never those of neighbouring posts, so related
/// themes are in one third; see `topics`.
const THEMES: [&str; 12] = [
    include_str!("bread.txt"),
    include_str!("soups.txt"),
    include_str!("preserves.txt"),
    include_str!("allotment.txt"),
    include_str!("bicycles.txt"),
    include_str!("woodwork.txt"),
    include_str!("pottery.txt"),
    include_str!("radios.txt"),
    include_str!("footpaths.txt"),
    include_str!("birds.txt"),
    include_str!("swimming.txt"),
    include_str!("nightsky.txt"),
];

/// All sentences, parsed once for each process.
static PROSE: LazyLock<Prose> = LazyLock::new(Prose::parse);

/// The lines of a file by section.
struct Sections(Vec<(&'static str, Vec<&'static str>)>);

/// The themes and the sentences that belong to none.
pub(crate) struct Prose {
    themes: Vec<Sections>,
    town: Sections,
}

impl Sections {
    /// Parses `[name]` lines, each followed by the lines of its section.
    fn parse(text: &'static str) -> Self {
        let mut sections: Vec<(&str, Vec<&str>)> = Vec::new();
        for line in text.lines() {
            let name = line
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            match (name, sections.last_mut()) {
                (Some(name), _) => sections.push((name, Vec::new())),
                (None, Some((_, lines))) if !line.is_empty() => lines.push(line),
                _ => {}
            }
        }
        Self(sections)
    }

    /// Returns the lines of a section; empty if there is none.
    fn of(&self, name: &str) -> &[&'static str] {
        let section = self.0.iter().find(|(section, _)| *section == name);
        section.map_or(&[], |(_, lines)| lines)
    }
}

impl Prose {
    /// Returns the sentences.
    pub(crate) fn get() -> &'static Self {
        &PROSE
    }

    fn parse() -> Self {
        let mut themes = Vec::new();
        for text in THEMES {
            themes.push(Sections::parse(text));
        }
        Self {
            themes,
            town: Sections::parse(include_str!("town.txt")),
        }
    }

    /// Returns the text of a post, about `length` bytes of Markdown.
    pub(crate) fn post(&self, random: &mut Pcg32, topic: &Topic, length: usize) -> String {
        let theme = &self.themes[topic.theme];
        let has_list = length >= LIST_FROM && random_below(random, 3) == 0;
        let list = has_list.then(|| list_of(random, theme.of("things")));
        // The list is a paragraph of its own, with an empty line before it.
        let text_length = length - list.as_ref().map_or(0, |list| list.len() + 2);
        let paragraphs = match length {
            ..LIST_FROM => 3,
            _ => 3 + random_below(random, 2) as usize,
        };

        let (middles, town) = (theme.of("middles"), self.town.of("middles"));
        let mut text = nearest_of(text_length, |_| {
            let first = self.one_of(random, topic, theme.of("openings"));
            let last = self.one_of(random, topic, theme.of("closings"));
            // Sentences of the theme are preferred; those of the town help with the length.
            let mut pool = Vec::with_capacity(middles.len() + town.len());
            for lines in [middles, town] {
                let mut deck = Deck::shuffled(random, lines.len());
                for _ in 0..lines.len() {
                    pool.push(self.filled(random, topic, lines[deck.next()]));
                }
            }
            fitted(Frame {
                first,
                last,
                length: text_length,
                paragraphs,
                pool,
            })
        });
        if let Some(list) = list {
            let place = 1 + random_below(random, text.len() as u64 - 1) as usize;
            text.insert(place, list);
        }
        text.join("\n\n")
    }

    /// Returns the text of the `j`-th comment on a post, about `length` bytes of plain text.
    /// Comments on one post take their sentences one after the other from the same order.
    pub(crate) fn comment(
        &self,
        random: &mut Pcg32,
        topic: &Topic,
        j: u64,
        length: usize,
    ) -> String {
        let theme = &self.themes[topic.theme];
        let sentence = |random: &mut Pcg32, lines: &[&str], number: u64| {
            let line = lines.get((topic.order + number) as usize % lines.len().max(1));
            self.filled(random, topic, line.copied().unwrap_or_default())
        };
        let (remarks, talk) = (theme.of("remarks"), self.town.of("talk"));
        let text = nearest_of(length, |attempt| {
            // The steps are coprime to the numbers of sentences, so every sentence gets its turn.
            let first = sentence(random, self.town.of("greetings"), j * 5);
            let last = sentence(random, self.town.of("goodbyes"), j * 7);
            let mut remark_deck = Deck::at(topic.order + j * 3, remarks.len());
            let mut talk_deck = Deck::at(topic.order + j * 6 + attempt, talk.len());
            let mut pool = Vec::new();
            for turn in 0..24 {
                // The theme comes first and every third time, until its sentences are used up.
                let is_remark = turn % 3 == 0 && turn / 3 < remarks.len();
                let line = match is_remark {
                    true => remarks[remark_deck.next()],
                    false => talk[talk_deck.next()],
                };
                pool.push(self.filled(random, topic, line));
            }
            fitted(Frame {
                first,
                last,
                length,
                paragraphs: if length < TWO_PARAGRAPHS_FROM { 1 } else { 2 },
                pool,
            })
        });
        text.join("\n\n")
    }

    /// Returns one of `lines` with filled slots.
    fn one_of(&self, random: &mut Pcg32, topic: &Topic, lines: &[&'static str]) -> String {
        let line = pick(random, lines);
        self.filled(random, topic, line)
    }

    /// Returns a sentence or a title with filled slots. Its first letter is a capital.
    fn filled(&self, random: &mut Pcg32, topic: &Topic, template: &str) -> String {
        let mut text = String::with_capacity(template.len() + 32);
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (slot, after) = after.split_once('}').unwrap_or((after, ""));
            text.push_str(before);
            match slot {
                "it" => text.extend(["the ", topic.subject]),
                "It" => text.extend(["The ", topic.subject]),
                "bare" | "Bare" => text.push_str(topic.subject),
                "n" => text.push_str(pick(random, self.town.of("numbers"))),
                "day" => text.push_str(pick(random, self.town.of("days"))),
                "friend" => text.push_str(pick(random, self.town.of("friends"))),
                "place" => text.push_str(pick(random, self.town.of("places"))),
                // A test checks that there is no other slot.
                _ => {}
            }
            rest = after;
        }
        text.push_str(rest);
        if let Some(first) = text.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        text
    }
}

/// Makes texts until one has about `length` bytes, and returns the one that comes nearest.
fn nearest_of(length: usize, mut make: impl FnMut(u64) -> Vec<String>) -> Vec<String> {
    let mut best = (usize::MAX, Vec::new());
    for attempt in 0..ATTEMPTS {
        let text = make(attempt);
        let distance = fitting::length_of(&text).abs_diff(length);
        if distance < best.0 {
            best = (distance, text);
        }
        if best.0 <= SLACK {
            break;
        }
    }
    best.1
}

/// Returns a paragraph with three of `things` as a Markdown list.
fn list_of(random: &mut Pcg32, things: &[&str]) -> String {
    let mut deck = Deck::shuffled(random, things.len());
    let mut list = String::from("You need:\n");
    for _ in 0..3.min(things.len()) {
        list.extend(["\n- ", things[deck.next()]]);
    }
    list
}

fn pick(random: &mut Pcg32, lines: &[&'static str]) -> &'static str {
    let place = random_below(random, lines.len() as u64) as usize;
    lines.get(place).copied().unwrap_or_default()
}

/// An order in which every number below `count` comes once before any comes again.
struct Deck {
    place: usize,
    step: usize,
    count: usize,
}

impl Deck {
    /// Returns a deck with a random first number and a random order.
    fn shuffled(random: &mut Pcg32, count: usize) -> Self {
        let place = random_below(random, count as u64) as usize;
        let near = 1 + random_below(random, count as u64);
        Self {
            place,
            step: coprime_near(count as u64, near) as usize,
            count,
        }
    }

    /// Returns the one order of all numbers, from its `start`-th place on.
    fn at(start: u64, count: usize) -> Self {
        let step = coprime_near(count as u64, count as u64 * 5 / 8) as usize;
        let place = (start % count.max(1) as u64) as usize * step % count.max(1);
        Self { place, step, count }
    }

    fn next(&mut self) -> usize {
        let place = self.place;
        self.place = (place + self.step) % self.count.max(1);
        place
    }
}

/// Returns the smallest number from `near` upward that is coprime to `modulus`.
pub(crate) fn coprime_near(modulus: u64, near: u64) -> u64 {
    let mut candidate = near.max(1);
    while greatest_common_divisor(modulus, candidate) > 1 {
        candidate += 1;
    }
    candidate
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}
