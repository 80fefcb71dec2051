//! Generated commands: the analysis never ends the process, and a denied program stays visible.
//!
//! Runs on a thread as the engine has it. Never runs a command.

use std::panic::{AssertUnwindSafe, catch_unwind};

use callgate::gate::command::{Analysis, Opaque, analyse, limits};

const STACK_BYTES: usize = 16 << 20;

fn on_analysis_thread(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
    thread.spawn(work).unwrap().join().unwrap();
}

/// As the engine does it: a crash of a parser is an answer too.
fn guarded(text: &str) -> Analysis {
    let found = catch_unwind(AssertUnwindSafe(|| analyse(text)));
    found.unwrap_or_else(|_| Analysis::raw_only(text, Opaque::ParserCrashed))
}

fn sees(analysis: &Analysis, words: &[&str]) -> bool {
    let begins = |found: &[String]| found.iter().zip(words).all(|(word, want)| word == want);
    let mut views = analysis.views();
    views.any(|(_, view)| view.words.len() >= words.len() && begins(&view.words))
}

/// A xorshift generator: the same commands on every machine.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
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

fn simple(dice: &mut Dice) -> String {
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
fn around(dice: &mut Dice, depth: usize, leaf: &str) -> String {
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
fn broken(dice: &mut Dice, text: &str) -> String {
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

/// A build without optimisation needs a millisecond for each.
const ROUNDS: usize = if cfg!(debug_assertions) {
    10_000
} else {
    100_000
};

#[test]
fn generated_commands_end_in_an_answer() {
    on_analysis_thread(|| {
        let mut dice = Dice(0x5eed_0001);
        for round in 0..ROUNDS {
            let depth = dice.roll(4);
            let leaf = simple(&mut dice);
            let mut text = around(&mut dice, depth, &leaf);
            if dice.roll(10) == 0 {
                text = format!("cat <<E\n{text}\n$({leaf})\nE\n{text}");
            }
            if dice.roll(2) == 0 {
                text = broken(&mut dice, &text);
            }
            let analysis = guarded(&text);
            let views = analysis.views().count();
            assert!(views <= limits::VIEWS_MAX + 1, "{round}: {text}");
            let understood = analysis.understood.is_ok();
            assert!(
                !understood || !analysis.segments.is_empty(),
                "{round}: {text}"
            );
            assert!(!understood || analysis.others.is_empty(), "{round}: {text}");
        }
    });
}

#[test]
fn a_denied_program_is_visible_in_generated_commands() {
    on_analysis_thread(|| {
        let mut dice = Dice(0x5eed_0002);
        let names = [
            "rm",
            "'rm'",
            "r\\m",
            "\"r\"m",
            "$'\\162m'",
            "/bin/rm",
            "sudo rm",
            "env A=b rm",
        ];
        let flags = [
            "-rf /x",
            "-fr /x",
            "-r -f '/x'",
            "--recursive --force /x",
            "/x -rf",
        ];
        for round in 0..5_000 {
            let leaf = format!("{} {}", dice.pick(&names), dice.pick(&flags));
            let depth = dice.roll(5);
            let text = around(&mut dice, depth, &leaf);
            assert!(
                sees(&guarded(&text), &["rm", "-rf", "/x"]),
                "{round}: {text}"
            );
        }
    });
}

#[test]
fn nesting_bombs_end_in_an_answer() {
    on_analysis_thread(|| {
        let openers = [
            "(",
            "( ",
            "$(",
            "\"$(",
            "echo $(",
            "{ ",
            "`",
            "${a:-",
            "$((",
            "[[ ( ",
            "((",
            "if ",
            "while ",
            "case a in a) ",
            "<(",
            "a=(",
            "f() { ",
            "a[",
            "@(",
            "$(echo ')' ",
            "( : ')'\n",
            "\"$(: ')' ",
            "${a:-'}' ",
            "if : fi;then ",
            "{a,",
            "! ",
            "time ",
            "eval ",
            "sudo -Z ",
            "xargs -I ",
            "$[",
        ];
        for opener in openers {
            for levels in [1, 8, 31, 100, 150, 3_000] {
                let analysis = guarded(&format!("{}ls", opener.repeat(levels)));
                assert!(analysis.views().count() > 0, "{opener}");
            }
        }
    });
}
