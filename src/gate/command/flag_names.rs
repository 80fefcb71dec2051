//! Short and long names of the same flags.
//!
//! Data only. A flag that stands in no list has the one name that it was written with.

/// Programs, or sub-commands of theirs, and the long and short names of their flags.
type Named = (&'static [&'static str], &'static [(&'static str, char)]);

/// Long names of short flags.
pub(super) const LONG_NAMES: &[Named] = &[
    (
        &["rm"],
        &[
            ("recursive", 'r'),
            ("force", 'f'),
            ("dir", 'd'),
            ("verbose", 'v'),
            ("interactive", 'i'),
        ],
    ),
    (
        &["chmod", "chown", "chgrp"],
        &[
            ("recursive", 'R'),
            ("verbose", 'v'),
            ("changes", 'c'),
            ("silent", 'f'),
        ],
    ),
    (
        &["cp"],
        &[
            ("recursive", 'r'),
            ("force", 'f'),
            ("archive", 'a'),
            ("verbose", 'v'),
            ("no-clobber", 'n'),
        ],
    ),
    (
        &["mv"],
        &[("force", 'f'), ("verbose", 'v'), ("no-clobber", 'n')],
    ),
    (
        &["ln"],
        &[("symbolic", 's'), ("force", 'f'), ("verbose", 'v')],
    ),
    (
        &["shred"],
        &[("force", 'f'), ("remove", 'u'), ("zero", 'z')],
    ),
    (
        &["sed"],
        &[
            ("in-place", 'i'),
            ("quiet", 'n'),
            ("expression", 'e'),
            ("regexp-extended", 'E'),
        ],
    ),
    (
        &["git push"],
        &[
            ("force", 'f'),
            ("delete", 'd'),
            ("set-upstream", 'u'),
            ("verbose", 'v'),
        ],
    ),
    (
        &["git clean"],
        &[("force", 'f'), ("quiet", 'q'), ("dry-run", 'n')],
    ),
    (
        &["git add"],
        &[
            ("all", 'A'),
            ("update", 'u'),
            ("force", 'f'),
            ("patch", 'p'),
        ],
    ),
    (
        &["git commit"],
        &[
            ("all", 'a'),
            ("message", 'm'),
            ("no-verify", 'n'),
            ("signoff", 's'),
        ],
    ),
    (
        &["git branch"],
        &[("delete", 'd'), ("force", 'f'), ("move", 'm'), ("all", 'a')],
    ),
    (&["git checkout"], &[("force", 'f'), ("quiet", 'q')]),
    (
        &["git switch"],
        &[("force", 'f'), ("create", 'c'), ("discard-changes", 'f')],
    ),
    (
        &["git tag"],
        &[("delete", 'd'), ("force", 'f'), ("annotate", 'a')],
    ),
    (&["git rm"], &[("force", 'f'), ("dry-run", 'n')]),
    (
        &["docker rm"],
        &[("force", 'f'), ("volumes", 'v'), ("link", 'l')],
    ),
    (
        &[
            "docker rmi",
            "docker container prune",
            "docker volume rm",
            "docker network prune",
            "cargo install",
            "git worktree",
        ],
        &[("force", 'f')],
    ),
    (
        &["docker run"],
        &[
            ("detach", 'd'),
            ("interactive", 'i'),
            ("tty", 't'),
            ("volume", 'v'),
        ],
    ),
    (
        &["curl"],
        &[
            ("output", 'o'),
            ("request", 'X'),
            ("data", 'd'),
            ("upload-file", 'T'),
        ],
    ),
    (&["kill", "docker kill"], &[("signal", 's')]),
    (
        &["docker compose down"],
        &[("volumes", 'v'), ("timeout", 't')],
    ),
    (
        &["docker compose up"],
        &[("detach", 'd'), ("force-recreate", 'F')],
    ),
    (&["docker compose"], &[("file", 'f'), ("project-name", 'p')]),
    (
        &[
            "docker system prune",
            "docker image prune",
            "docker volume prune",
        ],
        &[("all", 'a'), ("force", 'f')],
    ),
    (
        &["docker exec"],
        &[
            ("user", 'u'),
            ("interactive", 'i'),
            ("tty", 't'),
            ("detach", 'd'),
            ("workdir", 'w'),
            ("env", 'e'),
        ],
    ),
    (
        &["docker build"],
        &[("file", 'f'), ("tag", 't'), ("quiet", 'q')],
    ),
    (&["docker stop"], &[("time", 't'), ("timeout", 't')]),
    (
        &["docker"],
        &[("host", 'H'), ("context", 'c'), ("debug", 'D')],
    ),
    (
        &["kubectl"],
        &[
            ("namespace", 'n'),
            ("filename", 'f'),
            ("selector", 'l'),
            ("output", 'o'),
            ("all-namespaces", 'A'),
            ("recursive", 'R'),
            ("kustomize", 'k'),
            ("server", 's'),
            ("container", 'c'),
        ],
    ),
    (
        &["helm"],
        &[("namespace", 'n'), ("values", 'f'), ("install", 'i')],
    ),
    (
        &["npm"],
        &[
            ("global", 'g'),
            ("force", 'f'),
            ("save-dev", 'D'),
            ("save", 'S'),
            ("save-exact", 'E'),
            ("save-optional", 'O'),
            ("workspace", 'w'),
            ("silent", 's'),
            ("yes", 'y'),
        ],
    ),
    (
        &["yarn add"],
        &[("dev", 'D'), ("exact", 'E'), ("peer", 'P')],
    ),
    (
        &["pnpm"],
        &[
            ("global", 'g'),
            ("save-dev", 'D'),
            ("recursive", 'r'),
            ("filter", 'F'),
            ("dir", 'C'),
        ],
    ),
    (
        &["pip"],
        &[
            ("upgrade", 'U'),
            ("requirement", 'r'),
            ("editable", 'e'),
            ("index-url", 'i'),
            ("target", 't'),
            ("constraint", 'c'),
            ("yes", 'y'),
            ("quiet", 'q'),
        ],
    ),
    (
        &["cargo"],
        &[
            ("release", 'r'),
            ("quiet", 'q'),
            ("verbose", 'v'),
            ("package", 'p'),
            ("features", 'F'),
            ("jobs", 'j'),
        ],
    ),
    (
        &["gh api"],
        &[
            ("method", 'X'),
            ("field", 'F'),
            ("raw-field", 'f'),
            ("header", 'H'),
        ],
    ),
    (
        &["gh pr"],
        &[
            ("repo", 'R'),
            ("squash", 's'),
            ("draft", 'd'),
            ("merge", 'm'),
            ("rebase", 'r'),
            ("delete-branch", 'd'),
            ("title", 't'),
            ("body", 'b'),
        ],
    ),
    (&["gh"], &[("repo", 'R')]),
    (
        &["apt-get", "apt"],
        &[
            ("yes", 'y'),
            ("assume-yes", 'y'),
            ("quiet", 'q'),
            ("simulate", 's'),
            ("target-release", 't'),
        ],
    ),
    (
        &["dpkg"],
        &[
            ("remove", 'r'),
            ("install", 'i'),
            ("purge", 'P'),
            ("unpack", 'U'),
        ],
    ),
    (
        &["git rebase"],
        &[("interactive", 'i'), ("exec", 'x'), ("force-rebase", 'f')],
    ),
    (
        &["git pull"],
        &[("rebase", 'r'), ("force", 'f'), ("quiet", 'q')],
    ),
    (
        &["git fetch"],
        &[("prune", 'p'), ("force", 'f'), ("all", 'A'), ("tags", 't')],
    ),
    (&["git revert"], &[("no-commit", 'n'), ("mainline", 'm')]),
    (
        &["git cherry-pick"],
        &[("no-commit", 'n'), ("mainline", 'm'), ("signoff", 's')],
    ),
    (&["git apply"], &[("reverse", 'R')]),
    (
        &["git merge"],
        &[("message", 'm'), ("signoff", 's'), ("verbose", 'v')],
    ),
    (
        &["git reset"],
        &[("patch", 'p'), ("quiet", 'q'), ("intent-to-add", 'N')],
    ),
    (
        &["git restore"],
        &[
            ("source", 's'),
            ("staged", 'S'),
            ("worktree", 'W'),
            ("patch", 'p'),
        ],
    ),
    (
        &["git clone"],
        &[
            ("config", 'c'),
            ("branch", 'b'),
            ("origin", 'o'),
            ("upload-pack", 'u'),
        ],
    ),
    (
        &["hg push"],
        &[("force", 'f'), ("rev", 'r'), ("bookmark", 'B')],
    ),
    (
        &["hg"],
        &[("repository", 'R'), ("quiet", 'q'), ("verbose", 'v')],
    ),
    (
        &["svn"],
        &[("message", 'm'), ("quiet", 'q'), ("revision", 'r')],
    ),
    (
        &["psql"],
        &[
            ("command", 'c'),
            ("host", 'h'),
            ("file", 'f'),
            ("dbname", 'd'),
            ("username", 'U'),
            ("port", 'p'),
        ],
    ),
    (
        &["mysql"],
        &[
            ("execute", 'e'),
            ("host", 'h'),
            ("user", 'u'),
            ("password", 'p'),
            ("database", 'D'),
        ],
    ),
    (
        &["node"],
        &[
            ("eval", 'e'),
            ("print", 'p'),
            ("require", 'r'),
            ("check", 'c'),
        ],
    ),
    (
        &["tar"],
        &[
            ("extract", 'x'),
            ("get", 'x'),
            ("create", 'c'),
            ("directory", 'C'),
            ("file", 'f'),
            ("list", 't'),
            ("append", 'r'),
            ("update", 'u'),
        ],
    ),
    (
        &["iptables", "ip6tables"],
        &[
            ("flush", 'F'),
            ("delete", 'D'),
            ("append", 'A'),
            ("insert", 'I'),
            ("policy", 'P'),
            ("table", 't'),
            ("delete-chain", 'X'),
        ],
    ),
    (
        &["wget"],
        &[
            ("output-document", 'O'),
            ("quiet", 'q'),
            ("recursive", 'r'),
            ("directory-prefix", 'P'),
        ],
    ),
    (
        &["grep"],
        &[
            ("recursive", 'r'),
            ("ignore-case", 'i'),
            ("regexp", 'e'),
            ("file", 'f'),
        ],
    ),
    (&["ls"], &[("all", 'a'), ("recursive", 'R')]),
    (&["brew"], &[("force", 'f'), ("verbose", 'v')]),
    (
        &["gradle"],
        &[
            ("exclude-task", 'x'),
            ("project-dir", 'p'),
            ("project-prop", 'P'),
            ("quiet", 'q'),
        ],
    ),
    (
        &["pacman"],
        &[
            ("remove", 'R'),
            ("sync", 'S'),
            ("upgrade", 'U'),
            ("query", 'Q'),
        ],
    ),
    (
        &["rsync"],
        &[
            ("archive", 'a'),
            ("recursive", 'r'),
            ("rsh", 'e'),
            ("dry-run", 'n'),
            ("verbose", 'v'),
        ],
    ),
    (&["truncate"], &[("size", 's'), ("no-create", 'c')]),
    (&["touch"], &[("date", 'd'), ("reference", 'r')]),
    (
        &["sudo"],
        &[
            ("user", 'u'),
            ("group", 'g'),
            ("shell", 's'),
            ("login", 'i'),
            ("edit", 'e'),
            ("preserve-env", 'E'),
            ("non-interactive", 'n'),
        ],
    ),
    (
        &["useradd"],
        &[("groups", 'G'), ("shell", 's'), ("uid", 'u')],
    ),
    (
        &["usermod"],
        &[
            ("append", 'a'),
            ("groups", 'G'),
            ("lock", 'L'),
            ("shell", 's'),
        ],
    ),
    (&["userdel"], &[("remove", 'r'), ("force", 'f')]),
];

/// Short flags that mean the same: the second is what the first is taken for.
pub(super) const SAME_LETTERS: &[(&str, char, char)] =
    &[("rm", 'R', 'r'), ("cp", 'R', 'r'), ("grep", 'R', 'r')];
