//! Programs that can be told to run others, and with which words.
//!
//! Data only.

/// Programs that run whatever they read from their input.
pub(super) const READS_CODE: &[&str] = &[
    "ed", "ex", "sqlite3", "psql", "mysql", "mariadb", "sftp", "lftp", "ftp", "gdb", "lldb", "m4",
    "dc", "ipython", "irb", "iex", "ghci", "scheme", "guile", "tclsh", "wish", "at", "batch",
    "crontab", "telnet",
];

/// Programs that run what they read unless a script is named.
pub(super) const READS_SCRIPT: &[&str] = &[
    "perl",
    "python",
    "pypy",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "Rscript",
    "R",
    "julia",
    "elixir",
    "osascript",
    "groovy",
    "scala",
    "jshell",
    "vim",
    "vi",
    "nvim",
    "view",
    "emacs",
];

/// Editors, which are given files and not a script.
pub(super) const EDITORS: &[&str] = &["vim", "vi", "nvim", "view", "gvim", "emacs"];

/// Programs in whose words code may stand, so that only plain words need not be spelled.
pub(super) const CODE_IN_WORDS: &[&str] = &[
    "perl",
    "python",
    "pypy",
    "ruby",
    "node",
    "nodejs",
    "deno",
    "bun",
    "php",
    "lua",
    "luajit",
    "osascript",
    "Rscript",
    "R",
    "julia",
    "elixir",
    "erl",
    "iex",
    "vim",
    "vi",
    "nvim",
    "view",
    "ex",
    "ed",
    "emacs",
    "emacsclient",
    "gdb",
    "lldb",
    "expect",
    "m4",
    "dc",
    "ipython",
    "less",
    "more",
    "rsync",
    "scp",
    "sftp",
    "lftp",
    "rename",
    "prename",
    "fzf",
];

/// Programs for which a word behind `+` is a command.
pub(super) const PLUS_COMMANDS: &[&str] = &[
    "vim", "vi", "nvim", "view", "gvim", "ex", "less", "more", "emacs",
];

/// Programs that read more options from a file that is named behind `@`.
pub(super) const READS_OPTIONS: &[&str] = &["gcc", "g++", "cc", "clang", "rustc", "java", "javac"];

/// Options whose value a program runs, or takes for settings that can name what it runs.
pub(super) const TELLING: &[(&str, &[&str])] = &[
    ("apt", APT),
    ("apt-get", APT),
    ("awk", AWK_CODE),
    ("bat", &["--pager"]),
    ("bmake", MAKE),
    ("cargo", &["--config", "-Z"]),
    ("clang", CC),
    ("cc", CC),
    ("cmake", &["-E", "-P"]),
    ("composer", &["--working-dir"]),
    (
        "ctest",
        &["--test-command", "--build-and-test", "-S", "-SP"],
    ),
    ("docker", &["--entrypoint", "--health-cmd"]),
    (
        "dpkg",
        &["--pre-invoke", "--post-invoke", "--status-logger"],
    ),
    ("ed", &["--shell"]),
    (
        "eslint",
        &["--rulesdir", "--parser", "-f", "--format", "-c", "--config"],
    ),
    ("fzf", &["--preview", "--bind", "--with-shell"]),
    ("g++", CC),
    ("gawk", AWK_CODE),
    ("gcc", CC),
    (
        "git",
        &[
            "--strategy",
            "--ext-diff",
            "--receive-pack",
            "--upload-pack",
        ],
    ),
    ("gmake", MAKE),
    (
        "go",
        &[
            "-exec",
            "-toolexec",
            "-vettool",
            "-ldflags",
            "-fixtool",
            "-w",
            "-gccgoflags",
            "-extld",
        ],
    ),
    ("helm", &["--post-renderer"]),
    ("install", &["--strip-program"]),
    ("java", &["-agentpath", "-agentlib", "-javaagent"]),
    (
        "just",
        &["--shell", "-c", "--command", "--chooser", "--shell-arg"],
    ),
    ("kubectl", &["--exec-command", "--exec-arg", "--overrides"]),
    (
        "less",
        &["--lesskey-content", "--lesskey-src", "--lesskey-file", "-k"],
    ),
    ("logrotate", &["-m", "--mail"]),
    ("make", MAKE),
    (
        "man",
        &["-P", "-B", "-H", "-C", "--pager", "--html", "--config-file"],
    ),
    ("mariadb", &["--pager"]),
    ("mawk", AWK_CODE),
    ("mypy", &["--python-executable"]),
    ("mysql", &["--pager"]),
    ("nc", &["-e", "-c"]),
    ("ncat", &["-e", "-c", "--exec", "--sh-exec", "--lua-exec"]),
    (
        "node",
        &[
            "-r",
            "--require",
            "--import",
            "--loader",
            "--experimental-loader",
        ],
    ),
    ("npm", NODE_TOOLS),
    (
        "pandoc",
        &["--filter", "-F", "--lua-filter", "-L", "--pdf-engine"],
    ),
    ("perl", &["-M", "-m", "-d", "-S"]),
    (
        "php",
        &[
            "-d",
            "--run",
            "--process-begin",
            "--process-code",
            "--process-end",
            "--execute",
        ],
    ),
    ("pip", &["--editor", "--python"]),
    ("pnpm", NODE_TOOLS),
    ("psql", &["-P", "-o", "--output", "--pset", "-v", "--set"]),
    ("python", &["-m", "-W", "-X"]),
    (
        "rpm",
        &[
            "--eval", "-E", "--define", "-D", "--pipe", "--load", "--macros",
        ],
    ),
    ("rsync", &["--early-exec"]),
    ("ruby", &["-r", "-S"]),
    ("rustc", &["-C", "--codegen"]),
    ("scp", &["-D"]),
    ("sed", &["-f", "--file"]),
    ("sftp", &["-D", "-s", "-b"]),
    ("sqlite3", &["-init"]),
    ("tar", &["--rmt-command"]),
    ("tcpdump", &["-z"]),
    ("vim", VIM),
    ("nvim", VIM),
    ("vi", VIM),
    ("wget", &["-e", "--execute", "--use-askpass"]),
    ("yarn", NODE_TOOLS),
];

const APT: &[&str] = &["-o", "--option", "-c", "--config-file"];
const AWK_CODE: &[&str] = &[
    "-f",
    "--file",
    "-i",
    "--include",
    "-l",
    "--load",
    "-E",
    "--exec",
    "-D",
    "--debug",
    "-W",
];
const CC: &[&str] = &["-wrapper", "-specs", "-B", "-fplugin", "--prefix"];
const MAKE: &[&str] = &["--eval", "-E"];
const NODE_TOOLS: &[&str] = &[
    "--script-shell",
    "--shell",
    "--editor",
    "--viewer",
    "--browser",
    "--git",
    "--userconfig",
    "--globalconfig",
    "--node-options",
];
const VIM: &[&str] = &[
    "--remote-send",
    "--remote-expr",
    "--remote-wait",
    "-S",
    "-u",
    "-s",
];
