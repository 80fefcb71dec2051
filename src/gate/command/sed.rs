//! Whether a script of `sed` may run commands.
//!
//! Reads the language as GNU sed does, down to letters as delimiters; a script that it cannot read to its
//! end may run anything. Never looks at files of scripts: an option for one must be spelled anyway.

use super::acting::is_long_option;

/// Whether one of these words, which follow `sed`, is a script with the command `e`, or `s` with the flag
/// `e`, or one that cannot be read.
pub(super) fn may_run(words: &[String]) -> bool {
    let mut scripts = scripts(words).into_iter();
    scripts.any(|script| Reader::new(script).may_run())
}

/// The words, or parts of words, that may be scripts.
fn scripts(words: &[String]) -> Vec<&str> {
    let mut scripts = Vec::new();
    let mut operand_is_script = true;
    // Values of options that stand among the operands.
    let mut values = 0;
    let mut rest = words.iter();
    let mut operands = Vec::new();
    while let Some(word) = rest.next() {
        let next = || rest.clone().next().map(String::as_str);
        if word == "--" {
            operands.extend(rest.by_ref().map(String::as_str));
        } else if is_long_option(word, "--expression") {
            let attached = word.split_once('=').map(|(_, script)| script);
            scripts.extend(attached.or_else(next));
            operand_is_script = false;
        } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            let is_long = letters.starts_with('-');
            if let Some((before, attached)) = letters.split_once('e').filter(|_| !is_long) {
                scripts.extend(match attached {
                    "" => next(),
                    attached => Some(attached),
                });
                // Behind `-i` it is how copies are named.
                operand_is_script &= before.contains('i');
            }
            let takes_next = match is_long {
                true => is_long_option(word, "--line-length") && !word.contains('='),
                false => word.ends_with('l'),
            };
            values += usize::from(takes_next);
        } else {
            operands.push(word);
        }
    }
    if operand_is_script {
        scripts.extend(operands.into_iter().take(1 + values));
    }
    scripts
}

/// Something that may run, or that nobody can read.
struct Doubtful;

/// A script, read from its start.
struct Reader<'a> {
    rest: std::iter::Peekable<std::str::Chars<'a>>,
}

impl<'a> Reader<'a> {
    fn new(script: &'a str) -> Self {
        Self {
            rest: script.chars().peekable(),
        }
    }

    fn may_run(mut self) -> bool {
        while self.rest.peek().is_some() {
            if self.command().is_err() {
                return true;
            }
        }
        false
    }

    /// One command with its addresses.
    fn command(&mut self) -> Result<(), Doubtful> {
        self.skip(|next| next.is_whitespace() || next == ';');
        self.addresses()?;
        let Some(command) = self.rest.next() else {
            return Ok(());
        };
        match command {
            '{' | '}' => Ok(()),
            '#' | 'r' | 'R' | 'w' | 'W' => {
                self.line();
                Ok(())
            }
            'a' | 'i' | 'c' => match self.line().contains('\\') {
                // Where such a text ends is a matter of its backslashes.
                true => Err(Doubtful),
                false => Ok(()),
            },
            ':' | 'b' | 't' | 'T' | 'v' => {
                self.skip(|next| next == ' ');
                self.skip(|next| !next.is_whitespace() && !";}".contains(next));
                Ok(())
            }
            's' => {
                let delimiter = self.delimiter()?;
                self.until(delimiter)?;
                self.until(delimiter)?;
                self.flags()
            }
            'y' => {
                let delimiter = self.delimiter()?;
                self.until(delimiter)?;
                self.until(delimiter)?;
                self.end()
            }
            _ if "=dDgGhHnNpPxzlqQLF".contains(command) => {
                self.skip(|next| next == ' ' || next.is_ascii_digit());
                self.end()
            }
            _ => Err(Doubtful),
        }
    }

    /// What stands before a command: lines, expressions, steps.
    fn addresses(&mut self) -> Result<(), Doubtful> {
        while let Some(next) = self.rest.peek().copied() {
            match next {
                '/' => {
                    self.rest.next();
                    self.until('/')?;
                }
                '\\' => {
                    self.rest.next();
                    let delimiter = self.delimiter()?;
                    self.until(delimiter)?;
                }
                '$' | ',' | '~' | '+' | '!' | 'I' | 'M' | ' ' | '\t' | '0'..='9' => {
                    self.rest.next();
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn delimiter(&mut self) -> Result<char, Doubtful> {
        let next = self.rest.next().filter(|next| !"\\\n".contains(*next));
        next.ok_or(Doubtful)
    }

    /// Up to a delimiter that no backslash stands before.
    fn until(&mut self, delimiter: char) -> Result<(), Doubtful> {
        while let Some(next) = self.rest.next() {
            match next {
                _ if next == delimiter => return Ok(()),
                '\\' => {
                    self.rest.next();
                }
                _ => {}
            }
        }
        Err(Doubtful)
    }

    fn flags(&mut self) -> Result<(), Doubtful> {
        self.skip(|next| next.is_ascii_digit() || "gpiImM".contains(next));
        if self.rest.peek() == Some(&'w') {
            self.line();
            return Ok(());
        }
        self.end()
    }

    /// Whether a command has ended.
    fn end(&mut self) -> Result<(), Doubtful> {
        self.skip(|next| next == ' ' || next == '\t');
        match self.rest.peek() {
            None | Some(';' | '}' | '#' | '\n') => Ok(()),
            Some(_) => Err(Doubtful),
        }
    }

    fn skip(&mut self, is_skipped: impl Fn(char) -> bool) {
        while self.rest.next_if(|next| is_skipped(*next)).is_some() {}
    }

    /// The rest of the line.
    fn line(&mut self) -> String {
        self.rest
            .by_ref()
            .take_while(|next| *next != '\n')
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::may_run;

    fn runs(words: &[&str]) -> bool {
        may_run(
            &words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn commands_and_flags_that_run_are_found() {
        let scripts = [
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
            r"\xaxe foo",
            "swabcwrm xwe",
            "s a b e",
            "y/a/b/;e",
            "a x\ne x",
            "b l;e",
            ":l\ne",
            "0~3e x",
            "/a/I,+2e x",
            "r f\ne x",
            "s/a/b/w f\ne x",
            "#n\ne x",
            r"s/\//x/e",
            "}e x",
        ];
        for script in scripts {
            assert!(runs(&[script]), "{script}");
            assert!(runs(&["-n", "-e", script, "f"]), "{script}");
            assert!(runs(&[&format!("-ne{script}"), "f"]), "{script}");
            assert!(runs(&[&format!("--expr={script}"), "f"]), "{script}");
            assert!(runs(&["-ie", script, "f"]), "{script}");
            assert!(runs(&["--", script, "f"]), "{script}");
            assert!(runs(&["-l", "5", script, "f"]), "{script}");
            assert!(runs(&["--line", "5", script, "f"]), "{script}");
        }
    }

    #[test]
    fn what_cannot_be_read_may_run() {
        for script in [
            "s/a/b",
            "/a",
            "y/a/b",
            "k",
            "a\\\ntext",
            "s",
            "\\",
            "pe",
            "1,3",
            "s/a/b/k",
        ] {
            // Addresses alone do nothing.
            assert_eq!(runs(&[script]), script != "1,3", "{script}");
        }
    }

    #[test]
    fn everyday_scripts_are_read() {
        let plain = [
            "s/the/a/",
            "s/a/e/",
            "/end/p",
            "1,3p",
            "s/re /x/",
            "y/abc/def/",
            "s/a/b/w file",
            "/e.*x/d",
            "1!G;h;$!d",
            "$!N;s/\\n/ /",
            ":a;N;$!ba;s/\\n/,/g",
            "/start/,/end/{s/a/b/g;p;}",
            "s#/usr/bin#/opt#g",
            "2q",
            "/^$/d",
            "$a the end",
            "s/\\(e\\)/[\\1]/2p",
            "/x/!s/e/f/gI",
            "10,20 p",
        ];
        for script in plain {
            assert!(!runs(&[script, "e.txt"]), "{script}");
            assert!(!runs(&["-i.bak", "-E", script, "e"]), "{script}");
            assert!(!runs(&["-n", "-e", script, "e"]), "{script}");
        }
    }
}
