//! Short and long names of the same flags.
//!
//! Data only. A flag that stands in no list has the one name that it was written with.

/// Long names of short flags. The first words are the program and its sub-command.
pub(super) const LONG_NAMES: &[(&str, &[(&str, char)])] = &[
    (
        "rm",
        &[
            ("recursive", 'r'),
            ("force", 'f'),
            ("dir", 'd'),
            ("verbose", 'v'),
            ("interactive", 'i'),
        ],
    ),
    (
        "chmod",
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("silent", 'f'),
        ],
    ),
    (
        "chown",
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("silent", 'f'),
        ],
    ),
    (
        "chgrp",
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("silent", 'f'),
        ],
    ),
    (
        "cp",
        &[
            ("recursive", 'r'),
            ("force", 'f'),
            ("archive", 'a'),
            ("verbose", 'v'),
            ("no-clobber", 'n'),
        ],
    ),
    (
        "mv",
        &[("force", 'f'), ("verbose", 'v'), ("no-clobber", 'n')],
    ),
    ("ln", &[("symbolic", 's'), ("force", 'f'), ("verbose", 'v')]),
    ("shred", &[("force", 'f'), ("remove", 'u'), ("zero", 'z')]),
    (
        "sed",
        &[
            ("in-place", 'i'),
            ("quiet", 'n'),
            ("expression", 'e'),
            ("regexp-extended", 'E'),
        ],
    ),
    (
        "git push",
        &[
            ("force", 'f'),
            ("delete", 'd'),
            ("set-upstream", 'u'),
            ("verbose", 'v'),
        ],
    ),
    (
        "git clean",
        &[("force", 'f'), ("quiet", 'q'), ("dry-run", 'n')],
    ),
    (
        "git add",
        &[
            ("all", 'A'),
            ("update", 'u'),
            ("force", 'f'),
            ("patch", 'p'),
        ],
    ),
    (
        "git commit",
        &[
            ("all", 'a'),
            ("message", 'm'),
            ("no-verify", 'n'),
            ("signoff", 's'),
        ],
    ),
    (
        "git branch",
        &[("delete", 'd'), ("force", 'f'), ("move", 'm'), ("all", 'a')],
    ),
    ("git checkout", &[("force", 'f'), ("quiet", 'q')]),
    (
        "git switch",
        &[("force", 'f'), ("create", 'c'), ("discard-changes", 'f')],
    ),
    (
        "git tag",
        &[("delete", 'd'), ("force", 'f'), ("annotate", 'a')],
    ),
    ("git rm", &[("force", 'f'), ("dry-run", 'n')]),
    ("git stash", &[]),
    (
        "docker rm",
        &[("force", 'f'), ("volumes", 'v'), ("link", 'l')],
    ),
    ("docker rmi", &[("force", 'f')]),
    (
        "docker run",
        &[
            ("detach", 'd'),
            ("interactive", 'i'),
            ("tty", 't'),
            ("volume", 'v'),
        ],
    ),
    (
        "curl",
        &[
            ("output", 'o'),
            ("request", 'X'),
            ("data", 'd'),
            ("upload-file", 'T'),
        ],
    ),
    ("kill", &[("signal", 's')]),
];

/// Short flags that mean the same: the second is what the first is taken for.
pub(super) const SAME_LETTERS: &[(&str, char, char)] = &[("rm", 'R', 'r'), ("cp", 'R', 'r')];
