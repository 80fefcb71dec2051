//! Text of others, made safe to show: characters that act or hide become escapes.
//!
//! A terminal obeys control characters, and bidi or zero-width ones make a text look like another.
//! Never shortens and never changes what can be seen.

/// Whether a character acts on a terminal or cannot be seen there.
///
/// Besides controls: everything that Unicode lets a display leave out, and what turns or breaks lines.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}'
            | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// The text on one line: what is hidden is written as an escape, a line's end too.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            hidden if is_hidden(hidden) => {
                out.push_str(&format!("\\u{{{:x}}}", u32::from(hidden)));
            }
            seen => out.push(seen),
        }
    }
    out
}

/// The lines of a text, each as [`visible`] writes it.
pub(super) fn visible_lines(text: &str) -> impl Iterator<Item = String> {
    text.split('\n').map(visible)
}

/// The same JSON document on one line; what is hidden in its strings stands there as JSON escapes.
pub(super) fn visible_json(document: &serde_json::Value) -> String {
    let text = document.to_string();
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match is_hidden(character) {
            false => out.push(character),
            true => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that has to be seen, by range.
    const HIDDEN: &[(u32, u32)] = &[
        (0x00, 0x1f),
        (0x7f, 0x9f),
        (0x200b, 0x200f),
        (0x2028, 0x2029),
        (0x202a, 0x202e),
        (0x2066, 0x2069),
        (0xfeff, 0xfeff),
        (0xe0000, 0xe007f),
    ];

    fn hidden() -> impl Iterator<Item = char> {
        let codes = HIDDEN.iter().flat_map(|(first, last)| *first..=*last);
        codes.map(|code| char::from_u32(code).unwrap())
    }

    #[test]
    fn every_hidden_character_is_written_in_plain_ones() {
        for character in hidden() {
            let text = visible(&format!("a{character}b"));
            assert!(
                text.starts_with("a\\") && text.bytes().all(|byte| byte.is_ascii_graphic()),
                "{:x}: {text}",
                u32::from(character)
            );
        }
    }

    #[test]
    fn escapes_name_the_character() {
        let cases = [
            ("rm\u{202e}txt.exe", "rm\\u{202e}txt.exe"),
            ("\u{1b}[2J", "\\u{1b}[2J"),
            ("a\nb\tc\rd", "a\\nb\\tc\\rd"),
            ("\u{e0041}", "\\u{e0041}"),
            ("\u{200b}", "\\u{200b}"),
        ];
        for (text, expected) in cases {
            assert_eq!(visible(text), expected);
        }
    }

    #[test]
    fn what_can_be_seen_stays_as_it_is() {
        let text = "päivää 世界 \u{5e9}\u{5dc}\u{5d5}\u{5dd} e\u{301} 🦀 \\n {\"a\": 1}";
        assert_eq!(visible(text), text);
    }

    #[test]
    fn lines_are_kept_apart() {
        let lines: Vec<String> = visible_lines("a\u{7}\nb\r\n").collect();
        assert_eq!(lines, ["a\\u{7}", "b\\r", ""]);
    }

    #[test]
    fn json_means_the_same_and_hides_nothing() {
        for character in hidden() {
            let document = serde_json::json!({"text": format!("a{character}b")});
            let text = visible_json(&document);
            assert!(text.is_ascii() && !text.contains(is_hidden), "{text}");
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, document);
        }
    }
}
