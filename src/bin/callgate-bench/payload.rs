//! Arguments as a model writes them, and the tool that they are for.
//!
//! The same seed gives the same bytes. Each call differs from the last in one number, so that nothing
//! can be answered from a cache. Never valid by accident: the tool's schema is checked by the sidecar.

use bytes::Bytes;

/// Name of the tool.
pub(crate) const TOOL: &str = "echo";

/// Name of the tool that must be asked.
pub(crate) const ASKED_TOOL: &str = "write";

/// Schema of the tool, in the core dialect.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "description": "What to write and where.",
  "properties": {
    "path": {"type": "string", "description": "Where to write."},
    "content": {"type": "string", "description": "What to write."},
    "line": {"type": "integer", "description": "First line, from 1."},
    "flags": {"type": "array", "items": {"type": "string"}},
    "edits": {
      "type": "array",
      "description": "Small changes, in order.",
      "items": {
        "type": "object",
        "properties": {
          "start": {"type": "integer"},
          "end": {"type": "integer"},
          "text": {"type": "string"},
          "keep": {"type": "boolean"}
        },
        "required": ["start", "end"]
      }
    }
  },
  "required": ["path", "content"]
}"#;

/// Digits of the number that changes.
const DIGITS: usize = 6;

/// Arguments of one size.
#[derive(Debug, Clone)]
pub(crate) struct Payload {
    text: Vec<u8>,
    number_at: usize,
    number: u32,
}

impl Payload {
    /// Arguments of exactly `bytes` bytes, at least 200. From 1 KiB on half of them is text, half an
    /// array of small objects.
    pub(crate) fn new(bytes: usize, seed: u64) -> Self {
        let mut random = Random(seed | 1);
        // Keys are not sorted and blanks stand where models put them.
        let mut text = String::from("{\"path\": \"src/engine/turn_task.rs\", \"line\": ");
        let number_at = text.len();
        text.push_str("100000, \"flags\": [\"create\", \"keep mode\"], ");
        if bytes >= 1_024 {
            text.push_str("\"edits\": [");
            let until = bytes / 2;
            while text.len() < until {
                let start = random.below(90_000) + 10_000;
                let word = WORDS.get(random.index(WORDS.len())).copied().unwrap_or("x");
                let keep = random.below(2) == 0;
                text.push_str(&format!(
                    "{{\"start\": {start}, \"end\": {}, \"text\": \"{word}\", \"keep\": {keep}}}, ",
                    start + random.below(9)
                ));
            }
            text.truncate(text.len() - 2);
            text.push_str("], ");
        }
        text.push_str("\"content\": \"");
        let room = bytes.saturating_sub(text.len() + 2);
        text.push_str(&prose(room, &mut random));
        text.push_str("\"}");
        Self {
            text: text.into_bytes(),
            number_at,
            number: 0,
        }
    }

    /// Arguments that differ from the ones before.
    pub(crate) fn next(&mut self) -> Bytes {
        self.number = (self.number + 1) % 900_000;
        let mut rest = self.number + 100_000;
        let digits = self.text.get_mut(self.number_at..self.number_at + DIGITS);
        for digit in digits.unwrap_or_default().iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        Bytes::copy_from_slice(&self.text)
    }
}

const WORDS: [&str; 12] = [
    "let",
    "turn",
    "= self",
    "await?",
    "match",
    "Some(call)",
    "=>",
    "return;",
    "state",
    "// keep",
    "None",
    "fn next",
];

/// Text of exactly `bytes` bytes, with an escape every few words.
fn prose(bytes: usize, random: &mut Random) -> String {
    let mut text = String::new();
    while text.len() < bytes {
        let piece = match random.below(8) {
            0 => "\\n    ",
            1 => "\\\"",
            _ => " ",
        };
        text.push_str(WORDS.get(random.index(WORDS.len())).copied().unwrap_or("x"));
        text.push_str(piece);
    }
    // An escape must not be cut in two.
    text.truncate(bytes);
    if text.ends_with('\\') {
        text.pop();
    }
    while text.len() < bytes {
        text.push('.');
    }
    text
}

/// A small generator: xorshift, the same everywhere.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn index(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_have_the_size_they_are_asked_for_and_parse() {
        for size in [200, 1_024, 10_240, 100_000] {
            let mut payload = Payload::new(size, 7);
            for _ in 0..3 {
                let text = payload.next();
                assert_eq!(text.len(), size);
                let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
                let has = |key, of: fn(&serde_json::Value) -> bool| value.get(key).is_some_and(of);
                assert!(has("content", serde_json::Value::is_string));
                assert!(has("line", serde_json::Value::is_u64));
            }
        }
    }

    #[test]
    fn two_payloads_of_one_seed_are_the_same() {
        assert_eq!(Payload::new(10_240, 7).text, Payload::new(10_240, 7).text);
    }
}
