//! Shells, what belongs to the shell itself, and options with which a harmless program acts.
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

/// Options of programs that mostly read with which they delete, write or run.
pub(super) const ACTING: &[(&str, &[&str])] = &[
    (
        "find",
        &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"],
    ),
    (
        "gfind",
        &["-delete", "-fprint", "-fprint0", "-fprintf", "-fls"],
    ),
    ("fd", &["-x", "-X", "--exec", "--exec-batch"]),
    ("fdfind", &["-x", "-X", "--exec", "--exec-batch"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("sort", &["-o", "--output", "--compress-program"]),
    (
        "tar",
        &[
            "--to-command",
            "--checkpoint-action",
            "--use-compress-program",
            "-I",
            "-F",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--remove-files",
        ],
    ),
    ("sed", &["-i", "--in-place"]),
    (
        "git",
        &[
            "--output",
            "--ext-diff",
            "--textconv",
            "--exec",
            "--upload-pack",
            "--receive-pack",
        ],
    ),
    ("git grep", &["-O", "--open-files-in-pager"]),
    ("git clone", &["-u", "-c", "--config"]),
];

/// Options of `find` behind which a command stands, up to `;` or `+`.
pub(super) const FIND_EXEC: &[&str] = &["-exec", "-execdir", "-ok", "-okdir"];

/// Options of `fd` behind which a command stands.
pub(super) const FD_EXEC: &[&str] = &["-x", "-X", "--exec", "--exec-batch"];
