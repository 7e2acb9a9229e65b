use super::*;
use crate::random::{StreamKind, random};
use std::collections::HashSet;

/// Texts of many topics and lengths: the text, its topic and the length that was asked for.
fn posts() -> Vec<(String, Topic, usize)> {
    let topics = Topics::new(3);
    let mut posts = Vec::new();
    for rank in 0..3_000 {
        let mut random = random(3, StreamKind::Post, rank);
        let topic = topics.of(rank);
        let length = 226 + rank as usize % 275;
        let text = Prose::get().post(&mut random, &topic, length);
        posts.push((text, topic, length));
    }
    posts
}

fn comments() -> Vec<(String, Topic, usize)> {
    let topics = Topics::new(3);
    let mut comments = Vec::new();
    for number in 0..3_000 {
        let mut random = random(3, StreamKind::Comment, number);
        let topic = topics.of(number / 25);
        let length = 500 + number as usize % 401;
        let text = Prose::get().comment(&mut random, &topic, number % 25, length);
        comments.push((text, topic, length));
    }
    comments
}

/// Returns the sentences of a text, without those of lists.
fn sentences(text: &str) -> Vec<&str> {
    let lines = text.lines().filter(|line| !line.starts_with("- "));
    let parts = lines.flat_map(|line| line.split_inclusive(['.', '?']));
    parts
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect()
}

#[test]
fn every_theme_has_enough_sentences_and_only_known_slots() {
    let prose = Prose::get();
    let least = [
        ("subjects", 8),
        ("titles", 8),
        ("openings", 5),
        ("middles", 11),
        ("closings", 5),
        ("things", 8),
        ("remarks", 8),
    ];
    for theme in &prose.themes {
        for (section, count) in least {
            let lines = theme.of(section);
            assert!(lines.len() >= count, "{section}: {lines:?}");
        }
        assert_eq!(theme.0.len(), least.len());
    }
    for (section, lines) in prose.themes.iter().chain([&prose.town]).flat_map(|s| &s.0) {
        let unique: HashSet<_> = lines.iter().collect();
        assert_eq!(unique.len(), lines.len(), "{section} has a line twice");
        for line in lines {
            for slot in line.split('{').skip(1) {
                let (slot, _) = slot.split_once('}').expect("an end of the slot");
                let known = ["it", "It", "bare", "Bare", "n", "day", "friend", "place"];
                assert!(known.contains(&slot), "{line}");
            }
        }
    }
}

#[test]
fn texts_have_the_length_that_was_asked_for() {
    for (text, topic, length) in posts().into_iter().chain(comments()) {
        assert!(
            text.len().abs_diff(length) <= SLACK,
            "{length}: {topic:?} {text}"
        );
    }
}

#[test]
fn posts_have_three_to_six_paragraphs_and_no_sentence_comes_twice() {
    for (text, ..) in posts() {
        let paragraphs = text.replace(":\n\n- ", ": - ").split("\n\n").count();
        assert!((3..=6).contains(&paragraphs), "{text}");
    }
    for (text, ..) in posts().into_iter().chain(comments()) {
        let sentences = sentences(&text);
        let unique: HashSet<_> = sentences.iter().collect();
        assert_eq!(unique.len(), sentences.len(), "{text}");
    }
}

#[test]
fn sentences_begin_with_a_capital_and_end_with_a_mark() {
    for (text, topic, _) in posts().into_iter().chain(comments()) {
        for sentence in sentences(&text) {
            assert!(
                sentence.starts_with(|c: char| c.is_ascii_uppercase()),
                "{sentence}"
            );
            let is_list = sentence == "You need:";
            assert!(is_list || sentence.ends_with(['.', '?']), "{sentence}");
        }
        for wrong in ["  ", " .", " ,", "..", "{", "}", "the the", "\"", "("] {
            assert!(!text.contains(wrong), "{wrong:?} in {text}");
        }
        assert_eq!(text.matches('*').count() % 2, 0, "{text}");
        assert!(text.is_ascii(), "{text}");
        assert!((20..=40).contains(&topic.title.len()), "{topic:?}");
        assert!(topic.title.starts_with(|c: char| c.is_ascii_uppercase()));
    }
}

#[test]
fn comments_tell_of_the_subject_or_the_theme_of_their_post() {
    for (text, topic, _) in comments() {
        let theme = &Prose::get().themes[topic.theme];
        // A remark with slots is found by its longest part without one.
        let tells = |line: &&str| {
            let parts = line.split(['{', '}']);
            let longest = parts.max_by_key(|part| part.len()).unwrap_or_default();
            text.contains(longest)
        };
        let is_about = text.contains(topic.subject) || theme.of("remarks").iter().any(tells);
        assert!(is_about, "{topic:?}: {text}");
    }
}

#[test]
fn neighbours_have_other_themes_and_every_theme_comes_up() {
    let topics = Topics::new(1);
    let all: Vec<Topic> = (0..600).map(|rank| topics.of(rank)).collect();
    for three in all.windows(3) {
        let themes: HashSet<_> = three.iter().map(|topic| topic.theme).collect();
        assert_eq!(themes.len(), 3, "{three:?}");
    }
    let themes: HashSet<_> = all.iter().map(|topic| topic.theme).collect();
    assert_eq!(themes.len(), THEMES.len());
    for page in all.chunks(100) {
        let titles: HashSet<_> = page.iter().map(|topic| &topic.title).collect();
        assert!(titles.len() >= 98, "{} titles of 100 posts", titles.len());
    }
    assert_eq!(all[17], Topics::new(1).of(17));
    assert_ne!(all[17], Topics::new(2).of(17));
}

#[test]
fn names_are_unique_short_and_of_many_scripts() {
    let names = Names::new(1);
    let all: Vec<String> = (0..20_000).map(|n| names.of(n)).collect();
    let unique: HashSet<_> = all.iter().map(|name| name.to_lowercase()).collect();
    assert_eq!(unique.len(), all.len());
    for name in &all {
        assert!((4..=40).contains(&name.len()), "{name}");
        // No form accepts such a name, so no visitor takes the name of a seeded user.
        assert!(!name.is_ascii() || name.contains(' '), "{name}");
    }
    assert!(names.of(10_000_000).len() <= 40);
    for script in ['а', 'α', 'ا', 'ו', 'र', '美', '민', 'Ş', '🍞'] {
        let has_script = |name: &&String| name.contains(script);
        assert!(all.iter().any(|name| has_script(&name)), "{script}");
    }
    let latin = all
        .iter()
        .filter(|name| name.starts_with(|c: char| c < '\u{250}'));
    let share = latin.count() as f64 / all.len() as f64;
    assert!((0.5..0.8).contains(&share), "{share}");
}
