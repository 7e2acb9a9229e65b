//! Faces of users: a small picture made from the name.
//!
//! Equal names have equal faces in every model and on every page. A face is inline SVG without
//! styles: its colours are classes, which `posts.css` maps to the tokens of the theme. The ink of
//! eyes and mouth has a contrast of more than 4.5 to every face colour, and all shapes are bold
//! enough for 24 pixels.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Colours of backgrounds, and of hair.
const TONES: u8 = 8;

/// Hair, by kind, in a box of 24 units. The head is a circle with radius 8 around (12, 14).
const HAIR: [&str; 8] = [
    // short, with a parting
    "M4 13C3 5 9 3 13 4c5 0 8 4 7 9-1-3-3-5-6-5-3 1-7 0-10 5z",
    // curls
    "M4 13a4 4 0 0 1 1-6 4 4 0 0 1 6-3 4 4 0 0 1 6 2 4 4 0 0 1 3 7c-2-3-4-4-8-4s-6 1-8 4z",
    // long
    "M3 22C2 10 5 3 12 3s10 7 9 19h-3c2-6 1-11-1-13-3 1-7 1-10 0-2 2-3 7-1 13z",
    // a cap
    "M4 11a8 8 0 0 1 16 0h3v2H4z",
    // a bun
    "M12 1a3 3 0 0 1 2 5c3 1 6 3 6 7-3-3-5-4-8-4s-5 1-8 4c0-4 3-6 6-7a3 3 0 0 1 2-5z",
    // a fringe
    "M4 14C3 6 7 3 12 3s9 3 8 11l-2-4H6z",
    // a scarf around the head
    "M12 2C5 2 1 9 2 22h4c-3-8-2-13 6-13s9 5 6 13h4C23 9 19 2 12 2z",
    // spikes
    "M4 12 5 6l3 2 1-5 3 4 3-4 1 5 3-2 1 6c-3-3-5-4-8-4s-5 1-8 4z",
];
/// Mouths, drawn as lines.
const MOUTHS: [&str; 4] = [
    "M9 18q3 3 6 0",
    "M9 18.5h6",
    "M9.5 18q4 2 5-1",
    "M10 18q2 1.5 4 0",
];
/// Eyes, drawn as lines with round ends: a point is a line without length.
const EYES: [&str; 4] = [
    "M9 14v0M15 14v0",
    "M8.5 14q.8-1.5 1.6 0M13.9 14q.8-1.5 1.6 0",
    "M9 13.5v1M15 13.5v1",
    "M8.3 14h1.5M14.2 14h1.5",
];
const GLASSES: &str = "M6.1 14a2.7 2.7 0 1 0 5.4 0 2.7 2.7 0 1 0-5.4 0m6.4 0a2.7 2.7 0 1 0 5.4 0 \
                       2.7 2.7 0 1 0-5.4 0m-1 0h1";

/// Returns the face of a name as SVG. The result contains nothing of the name.
pub(crate) fn face(name: &str) -> String {
    let digest = Sha256::digest(name.trim().as_bytes());
    let choice = |place: usize, count: usize| usize::from(digest[place]) % count;
    let background = digest[0] % TONES;
    // The hair never has the colour of the background.
    let hair = (background + 1 + digest[1] % (TONES - 1)) % TONES;
    let skin = choice(2, 4);
    let mut svg = String::with_capacity(480);
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg class=\"face\" viewBox=\"0 0 24 24\" aria-hidden=\"true\">\
         <rect class=\"tone-{background}\" width=\"24\" height=\"24\"/>\
         <circle class=\"skin-{skin}\" cx=\"12\" cy=\"14\" r=\"8\"/>\
         <path class=\"tone-{hair}\" d=\"{}\"/><path class=\"lines\" d=\"{}{}\"/>",
        HAIR[choice(3, HAIR.len())],
        EYES[choice(4, EYES.len())],
        MOUTHS[choice(5, MOUTHS.len())],
    );
    if choice(6, 4) == 0 {
        let _ = write!(svg, "<path class=\"glasses\" d=\"{GLASSES}\"/>");
    }
    svg.push_str("</svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn equal_names_have_equal_faces_and_others_rarely_do() {
        assert_eq!(face("Mira Holt"), face(" Mira Holt "));
        let names: Vec<String> = (0..500).map(|n| format!("name {n}")).collect();
        let faces: HashSet<String> = names.iter().map(|name| face(name)).collect();
        assert!(faces.len() > 480, "{} faces of 500 names", faces.len());
    }

    #[test]
    fn any_name_has_a_face_and_no_name_gets_into_the_markup() {
        for name in ["", "ليلى حداد", "Noor🌿 Lane", "<script>x</script>", "\"'&"] {
            let svg = face(name);
            assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>"), "{svg}");
            assert!(!svg.contains("script") && !svg.contains("style"), "{svg}");
            assert!(svg.len() < 800, "{} bytes", svg.len());
        }
    }
}
