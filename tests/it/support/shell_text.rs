//! Generated text of a shell: commands, what stands around commands, and text that is broken.
//!
//! Never runs any of it, and makes the same on every machine.

/// A xorshift generator: the same commands on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// Less than `sides`.
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    /// One of them.
    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len())]
    }
}

const WORDS: &[&str] = &[
    "a",
    "-l",
    "--all=1",
    "'a b'",
    "\"a $b\"",
    "$c",
    "${d:-e}",
    "$(pwd)",
    "`id`",
    "*.rs",
    "{a,b}",
    "~/x",
    "a\\ b",
    "$'\\x41'",
    "\"`id`\"",
    "$((1 + 2))",
    "<(ls)",
    "",
    "\u{e9}",
    "9",
    "a=b",
    "{}",
    "\"$(echo \"$(id)\")\"",
    "'it'\\''s'",
    "\\;",
    "!",
    "[",
    "]",
    "%",
    "@{1}",
];

const NAMES: &[&str] = &[
    "ls",
    "echo",
    "git status",
    "git -C x log",
    "cat",
    "sudo -n id",
    "timeout 5 make",
    "xargs -n1 wc",
    "find . -name",
    "sh -c",
    "env A=b printenv",
    "test -f",
    "[ -f",
    "printf",
    "export",
    "cd",
];

const AFTER: &[&str] = &[
    "",
    "",
    "",
    "",
    " > f",
    " 2>&1",
    " < f",
    " >> $f",
    " &> /dev/null",
    " <<< a",
    " 2> >(cat)",
];

/// One command with its arguments.
pub(crate) fn simple(dice: &mut Dice) -> String {
    let mut text = dice.pick(&["", "", "", "A=1 ", "B=$(id) "]).to_owned();
    text += dice.pick(NAMES);
    for _ in 0..dice.roll(4) {
        text.push(' ');
        text += dice.pick(WORDS);
    }
    if text.starts_with('[') {
        text += " ]";
    }
    text + dice.pick(AFTER)
}

/// A command with `leaf` somewhere in it. The blank behind `$(` keeps a group from being arithmetic.
pub(crate) fn around(dice: &mut Dice, depth: usize, leaf: &str) -> String {
    if depth == 0 {
        return leaf.to_owned();
    }
    let inner = around(dice, depth - 1, leaf);
    let other = simple(dice);
    match dice.roll(22) {
        0 => format!("{inner}; {other}"),
        1 => format!("{other} && {inner}"),
        2 => format!("{other} || {inner}"),
        3 => format!("{other} | {inner}"),
        4 => format!("{other} & {inner}"),
        5 => format!("{other}\n{inner}"),
        6 => format!("({inner})"),
        7 => format!("{{ {inner}; }}"),
        8 => format!("echo $( {inner})"),
        9 => format!("echo \"a $( {inner}) b\""),
        10 => format!("if {other}; then {inner}; else {other}; fi"),
        11 => format!("while {inner}; do {other}; done"),
        12 => format!("for i in a b; do {inner}; done"),
        13 => format!("case a in a) {inner} ;; *) {other} ;; esac"),
        14 => format!("diff <({inner}) <({other})"),
        15 => format!("x=$( {inner}) {other}"),
        16 => format!("f() {{ {inner}; }}; f"),
        17 => format!("! {inner}"),
        18 => format!("echo ${{x:-$( {inner})}}"),
        19 => format!("[[ -n $( {inner}) ]]"),
        20 => format!("( ({inner}) )"),
        _ => format!("echo $((1 + $( {inner})))"),
    }
}

/// Breaks the text somewhere, as a careless or a sly author would.
pub(crate) fn broken(dice: &mut Dice, text: &str) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(characters.len().max(1));
        let odd = dice.pick(&[
            "(",
            ")",
            "{",
            "}",
            "'",
            "\"",
            "`",
            "$",
            "\\",
            "\n",
            ";",
            "&",
            "|",
            "<",
            ">",
            "[",
            "]",
            "!",
            "#",
            "$(",
            "((",
            "))",
            "${",
            "<<",
            "<<E\n",
            "\nE\n",
            "99999999999>",
            "if ",
            "fi",
            "~",
            "*",
            "=",
            "\u{0}",
            "\r",
            "\u{202e}",
            "]]",
            "[[ ",
            "$[",
            "coproc ",
            "time ",
            "-",
        ]);
        match dice.roll(3) {
            0 if at < characters.len() => {
                characters.remove(at);
            }
            1 => characters.truncate(at),
            _ => {
                characters.splice(
                    at.min(characters.len())..at.min(characters.len()),
                    odd.chars(),
                );
            }
        }
    }
    characters.into_iter().collect()
}
