//! Whether a script of `sed` may run commands.
//!
//! Never reads the whole language: it looks for the letter in the places where it could mean that, and
//! finds too much.

/// Whether a word has the command `e`, or `s` with the flag `e`.
pub(super) fn may_run(script: &str) -> bool {
    let characters: Vec<char> = script.chars().collect();
    let letters = characters.iter().enumerate();
    let mut letters = letters.filter(|(_, letter)| **letter == 'e');
    letters.any(|(at, _)| {
        let before = characters.get(..at).unwrap_or_default();
        let behind = characters.get(at + 1).copied().unwrap_or(' ');
        // Nothing of a word stands behind a command or the last flag; other flags may.
        let ends = !behind.is_alphanumeric() || "gpiImMw".contains(behind);
        let behind_line = before
            .last()
            .is_some_and(|last| last.is_ascii_digit() || *last == '$');
        behind_line || ends && (begins_command(before) || is_among_flags(before))
    })
}

/// Whether a command may begin behind this: at the start, and behind an address or a separator.
fn begins_command(before: &[char]) -> bool {
    let last = before.iter().rev().find(|last| !last.is_whitespace());
    last.is_none_or(|last| last.is_ascii_digit() || "$/,;{}!~+|%#".contains(*last))
}

/// Whether nothing but flags stands between this and what may be the end of `s/…/…/`.
fn is_among_flags(before: &[char]) -> bool {
    let mut before = before.iter().rev();
    let mark = before.find(|last| !(last.is_ascii_digit() || "gpiImM".contains(**last)));
    mark.is_some_and(|mark| !mark.is_alphanumeric() && !mark.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::may_run;

    #[test]
    fn commands_and_flags_that_run_are_found() {
        let runs = [
            "e",
            "1e date",
            "$ e date",
            "/x/e",
            "1,3e",
            "s/a/b/e",
            "s/a/b/ge",
            "s|a|b|2e",
            "s/a/b/e;p",
            "p;e date",
            "/x/{e\n}",
            "s/a/b/em",
            "1!e x",
            "s,a,b,e",
        ];
        for script in runs {
            assert!(may_run(script), "{script}");
        }
        let plain = [
            "s/the/a/",
            "s/a/e/",
            "/end/p",
            "1,3p",
            "s/re /x/",
            "y/abc/def/",
            "file.txt",
            "s/a/b/w file",
            "/e.*x/d",
        ];
        let wrong: Vec<_> = plain.into_iter().filter(|script| may_run(script)).collect();
        // An `e` by itself behind a slash looks like a command behind an address.
        assert_eq!(wrong, ["s/a/e/", "/e.*x/d"]);
    }
}
