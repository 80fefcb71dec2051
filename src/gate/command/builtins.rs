//! Shells, what belongs to the shell itself, and options with which a program acts or runs others.
//!
//! Data only.

/// Shells whose `-c` takes a script.
pub(super) const SHELLS: &[&str] = &[
    "sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash", "yash", "csh", "tcsh",
    "pwsh", "nu", "elvish", "xonsh", "rc", "posh", "lksh", "osh",
];

/// Commands that mean something else for the shell that runs them, with what they do.
pub(super) const EVALUATING: &[&str] = &[
    "eval", "source", ".", "trap", "exec", "let", "bind", "fc", "complete", "compgen",
];

/// Commands that change what later ones in the same shell mean.
pub(super) const CHANGING: &[&str] = &[
    "alias",
    "unalias",
    "enable",
    "hash",
    "set",
    "shopt",
    "unset",
    "export",
    "declare",
    "typeset",
    "local",
    "readonly",
    "read",
    "mapfile",
    "readarray",
    "getopts",
    "ulimit",
    "umask",
    "setopt",
    "unsetopt",
    "autoload",
    "zmodload",
    "emulate",
    "abbr",
    "function",
];

/// Commands that evaluate the subscripts in their arguments, so that `a[$(rm x)]` runs `rm`.
pub(super) const SUBSCRIPTING: &[&str] = &[
    "let",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "unset",
    "read",
    "mapfile",
    "readarray",
    "getopts",
    "printf",
    "test",
    "[",
    "wait",
    "eval",
];

/// Options of programs that mostly read with which they delete or write.
pub(super) const ACTING: &[(&str, &[&str])] = &[
    ("find", FIND_WRITES),
    ("gfind", FIND_WRITES),
    ("sort", &["-o", "--output"]),
    ("tar", &["--remove-files"]),
    ("sed", &["-i", "--in-place"]),
    ("git", &["--output"]),
];

const FIND_WRITES: &[&str] = &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"];

/// Options whose value is a command that the program runs.
pub(super) const RUNNING: &[(&str, &[&str])] = &[
    ("fd", FD_EXEC),
    ("fdfind", FD_EXEC),
    ("rg", &["--pre", "--hostname-bin"]),
    ("sort", &["--compress-program"]),
    ("tar", TAR_RUNS),
    ("gtar", TAR_RUNS),
    ("bsdtar", TAR_RUNS),
    (
        "git",
        &[
            "--ext-diff",
            "--textconv",
            "--exec",
            "--upload-pack",
            "--receive-pack",
        ],
    ),
    ("git grep", &["-O", "--open-files-in-pager"]),
    ("git clone", &["-u", "-c", "--config", "--template"]),
    ("git rebase", &["-x", "-s", "--strategy"]),
    ("git merge", &["-s", "--strategy"]),
    ("git pull", &["-s", "--strategy"]),
    ("git cherry-pick", &["--strategy"]),
    ("git revert", &["--strategy"]),
    ("man", &["-P", "--pager", "-H", "--html"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("scp", &["-S", "-o"]),
    ("sftp", &["-S", "-o"]),
    ("split", &["--filter"]),
    ("zip", &["-TT", "--unzip-command"]),
    ("wget", &["--use-askpass"]),
    ("psql", &["-o", "--output"]),
    ("ansible", &["-a", "--args"]),
    ("gcloud", &["--command"]),
    ("make", &["--eval"]),
    ("gmake", &["--eval"]),
];

pub(super) const TAR_RUNS: &[&str] = &[
    "--to-command",
    "--checkpoint-action",
    "--use-compress-program",
    "-I",
    "-F",
    "--info-script",
    "--new-volume-script",
    "--rsh-command",
];

/// Options whose value is a text in another language, which may run anything.
pub(super) const FOREIGN: &[(&str, &[&str])] = &[
    ("perl", &["-e", "-E"]),
    ("python", &["-c"]),
    ("pypy", &["-c"]),
    ("ruby", &["-e"]),
    ("node", NODE_CODE),
    ("nodejs", NODE_CODE),
    ("bun", NODE_CODE),
    ("deno", &["eval"]),
    ("php", &["-r", "-B", "-R", "-E"]),
    ("lua", &["-e"]),
    ("luajit", &["-e"]),
    ("osascript", &["-e"]),
    ("Rscript", &["-e"]),
    ("R", &["-e"]),
    ("julia", &["-e", "-E", "--eval", "--print"]),
    ("elixir", &["-e", "--eval"]),
    ("erl", &["-eval"]),
    ("vim", VIM_CODE),
    ("vi", VIM_CODE),
    ("nvim", VIM_CODE),
    ("view", VIM_CODE),
    ("ex", VIM_CODE),
    ("emacs", &["-eval", "--eval", "--execute"]),
    ("gdb", &["-ex", "-iex", "--eval-command"]),
    ("lldb", &["-o", "-O", "--one-line"]),
    ("sqlite3", &["-cmd"]),
    ("psql", &["-c", "--command"]),
    ("mysql", &["-e", "--execute"]),
    ("expect", &["-c"]),
    ("gawk", &["-e", "--source"]),
    ("sed", &["-e", "--expression"]),
    ("gsed", &["-e", "--expression"]),
];

const NODE_CODE: &[&str] = &["-e", "-p", "--eval", "--print"];
const VIM_CODE: &[&str] = &["-c", "-S", "--cmd"];

/// Programs whose first operand is such a text.
pub(super) const FOREIGN_OPERAND: &[&str] = &["awk", "gawk", "mawk", "nawk", "sed", "gsed"];

/// Options of `find` behind which a command stands, up to `;` or `+`.
pub(super) const FIND_EXEC: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Variables of `make` that say how it runs commands.
pub(super) const MAKE_RUNS: &[&str] = &[
    "SHELL",
    ".SHELLFLAGS",
    "MAKE",
    "MAKEFLAGS",
    "GNUMAKEFLAGS",
    "MAKEFILES",
];

/// Options of `fd` behind which a command stands.
pub(super) const FD_EXEC: &[&str] = &["-x", "-X", "--exec", "--exec-batch"];
