//! Programs that run other programs.
//!
//! Data only, in no order: the longest name wins.

use super::programs::{NONE, Program, Role};

/// Programs that run what stands behind their options.
pub(super) const WRAPPERS: &[Program] = &[
    Program {
        names: &["timeout", "gtimeout"],
        role: Role::Transparent,
        flags: "fpv",
        valued: "ks",
        long_flags: &["--foreground", "--preserve-status", "--verbose"],
        long_valued: &["--kill-after", "--signal"],
        operands: 1,
        ..NONE
    },
    Program {
        names: &["nice"],
        role: Role::Transparent,
        flags: "0123456789",
        valued: "n",
        long_valued: &["--adjustment"],
        ..NONE
    },
    Program {
        names: &["nohup", "noglob", "builtin"],
        role: Role::Transparent,
        ..NONE
    },
    Program {
        names: &["command"],
        role: Role::Transparent,
        flags: "p",
        ..NONE
    },
    Program {
        names: &["stdbuf"],
        role: Role::Transparent,
        valued: "ioe",
        long_valued: &["--input", "--output", "--error"],
        ..NONE
    },
    Program {
        names: &["time", "gtime"],
        role: Role::Transparent,
        flags: "pvq",
        valued: "f",
        long_flags: &["--portability", "--verbose", "--quiet"],
        long_valued: &["--format"],
        ..NONE
    },
    Program {
        names: &["xargs", "gxargs"],
        flags: "0rtxpoeil",
        valued: "adEILnPsJRS",
        long_flags: &[
            "--null",
            "--no-run-if-empty",
            "--verbose",
            "--interactive",
            "--exit",
            "--open-tty",
        ],
        long_valued: &[
            "--arg-file",
            "--delimiter",
            "--max-args",
            "--max-procs",
            "--max-chars",
            "--process-slot-var",
        ],
        ..NONE
    },
    Program {
        names: &["env", "genv"],
        flags: "i0v",
        valued: "uC",
        long_flags: &["--ignore-environment", "--null", "--debug"],
        long_valued: &["--unset", "--chdir"],
        scripts: &["-S", "--split-string"],
        assignments: true,
        ..NONE
    },
    Program {
        names: &["sudo"],
        flags: "AbEeHiKklnPSsVv",
        valued: "ugpCcDRrTtUh",
        long_flags: &[
            "--askpass",
            "--background",
            "--preserve-env",
            "--set-home",
            "--login",
            "--non-interactive",
            "--preserve-groups",
            "--stdin",
            "--shell",
            "--reset-timestamp",
        ],
        long_valued: &[
            "--user",
            "--group",
            "--prompt",
            "--close-from",
            "--chdir",
            "--chroot",
            "--host",
            "--role",
            "--type",
            "--command-timeout",
            "--other-user",
        ],
        assignments: true,
        ..NONE
    },
    Program {
        names: &["doas"],
        flags: "Lns",
        valued: "uC",
        ..NONE
    },
    Program {
        names: &["su", "runuser"],
        flags: "lmpfP",
        valued: "gGsuw",
        long_flags: &["--login", "--preserve-environment", "--fast", "--pty"],
        long_valued: &[
            "--group",
            "--supp-group",
            "--shell",
            "--user",
            "--whitelist-environment",
        ],
        scripts: &["-c", "--command", "--session-command"],
        ..NONE
    },
    Program {
        names: &["pkexec"],
        long_flags: &["--disable-internal-agent", "--keep-cwd"],
        long_valued: &["--user"],
        ..NONE
    },
    Program {
        names: &["watch"],
        role: Role::Joined,
        flags: "bcdegptwx",
        valued: "nq",
        ..NONE
    },
    Program {
        names: &["setsid"],
        flags: "cfw",
        long_flags: &["--ctty", "--fork", "--wait"],
        ..NONE
    },
    Program {
        names: &["ionice"],
        flags: "t",
        valued: "cnpPu",
        long_flags: &["--ignore"],
        long_valued: &["--class", "--classdata"],
        ..NONE
    },
    Program {
        names: &["flock"],
        flags: "sxeunoFv",
        valued: "wE",
        long_flags: &[
            "--shared",
            "--exclusive",
            "--unlock",
            "--nonblock",
            "--nb",
            "--close",
            "--no-fork",
            "--verbose",
        ],
        long_valued: &["--wait", "--timeout", "--conflict-exit-code"],
        operands: 1,
        scripts: &["-c", "--command"],
        ..NONE
    },
    Program {
        names: &["script"],
        flags: "aefq",
        valued: "BEIOTmto",
        scripts: &["-c", "--command"],
        ..NONE
    },
    Program {
        names: &["ssh"],
        role: Role::Joined,
        flags: "46AaCfGgKkMNnqsTtVvXxYy",
        valued: "BbcDEeFIiJLlmOopQRSWw",
        operands: 1,
        ..NONE
    },
    Program {
        names: &[
            "parallel",
            "hyperfine",
            "entr",
            "nodemon",
            "watchexec",
            "concurrently",
        ],
        role: Role::Joined,
        ..NONE
    },
    Program {
        names: &["nix-shell", "nix develop", "nix shell"],
        scripts: &["--run", "--command", "-c"],
        ..NONE
    },
    Program {
        names: &["chroot", "taskset", "chrt", "choom"],
        operands: 1,
        ..NONE
    },
    Program {
        names: &[
            "unshare",
            "nsenter",
            "numactl",
            "setarch",
            "linux32",
            "linux64",
            "strace",
            "ltrace",
            "systemd-run",
            "firejail",
            "proot",
            "fakeroot",
            "dbus-run-session",
            "xvfb-run",
            "unbuffer",
            "rlwrap",
            "prlimit",
            "catchsegv",
            "valgrind",
            "setpriv",
            "capsh",
            "bwrap",
            "busybox",
            "toybox",
            "caffeinate",
            "arch",
            "chpst",
            "cgexec",
            "dotenv",
            "npx",
            "bunx",
            "uvx",
            "pipx run",
            "uv run",
            "poetry run",
            "pipenv run",
            "pdm run",
            "rye run",
            "hatch run",
            "bundle exec",
            "npm exec",
            "npm x",
            "pnpm exec",
            "pnpm dlx",
            "yarn exec",
            "yarn dlx",
            "devbox run",
            "mise exec",
            "mise x",
            "asdf exec",
            "rbenv exec",
            "pyenv exec",
            "nodenv exec",
            "conda run",
            "micromamba run",
            "dotenvx run",
            "op run",
            "doppler run",
            "rtk",
            "git bisect run",
            "ld.so",
            "xcrun",
            "rustup run",
            "coproc",
        ],
        ..NONE
    },
    // Each with options of its own, so that every place in it may begin the command.
    Program {
        names: &[
            "at",
            "batch",
            "bear",
            "ccache",
            "chronic",
            "cpulimit",
            "dbus-launch",
            "dumb-init",
            "eatmydata",
            "envdir",
            "expect",
            "faketime",
            "gdb",
            "gosu",
            "i386",
            "ip netns exec",
            "logsave",
            "lxc exec",
            "machinectl shell",
            "perf",
            "proxychains4",
            "rr",
            "run0",
            "runcon",
            "schroot",
            "screen",
            "sem",
            "setlock",
            "setuidgid",
            "sg",
            "softlimit",
            "ssh-agent",
            "sshpass",
            "start-stop-daemon",
            "su-exec",
            "systemd-cat",
            "systemd-inhibit",
            "tini",
            "tmux",
            "torsocks",
            "trickle",
            "with-lock-ex",
            "x86_64",
            "xterm",
        ],
        anywhere: true,
        ..NONE
    },
    Program {
        names: &["direnv exec", "aws-vault exec", "chamber exec"],
        operands: 1,
        ..NONE
    },
    Program {
        names: &[
            "docker exec",
            "podman exec",
            "docker compose exec",
            "docker-compose exec",
        ],
        flags: "diTt",
        valued: "euw",
        long_flags: &[
            "--detach",
            "--interactive",
            "--privileged",
            "--tty",
            "--no-TTY",
        ],
        long_valued: &[
            "--env",
            "--env-file",
            "--user",
            "--workdir",
            "--detach-keys",
            "--index",
        ],
        operands: 1,
        ..NONE
    },
    Program {
        names: &[
            "docker run",
            "podman run",
            "docker compose run",
            "docker-compose run",
        ],
        flags: "dit",
        valued: "acehlmpuvw",
        long_flags: &[
            "--rm",
            "--detach",
            "--interactive",
            "--tty",
            "--init",
            "--privileged",
        ],
        long_valued: &[
            "--name",
            "--volume",
            "--env",
            "--network",
            "--user",
            "--workdir",
            "--mount",
        ],
        operands: 1,
        ..NONE
    },
    Program {
        names: &["kubectl exec", "oc exec"],
        flags: "it",
        valued: "cn",
        long_flags: &["--stdin", "--tty", "--quiet"],
        long_valued: &["--container", "--namespace"],
        operands: 1,
        ..NONE
    },
    Program {
        names: &[
            "git submodule foreach",
            "git submodule -q foreach",
            "git submodule --quiet foreach",
        ],
        role: Role::Joined,
        long_flags: &["--recursive", "--quiet"],
        ..NONE
    },
    Program {
        names: &["git rebase"],
        operands: usize::MAX,
        scripts: &["-x", "--exec"],
        ..NONE
    },
    Program {
        names: &["git grep"],
        operands: usize::MAX,
        scripts: &["-O", "--open-files-in-pager"],
        ..NONE
    },
    Program {
        names: &["git difftool"],
        operands: usize::MAX,
        scripts: &["-x", "--extcmd"],
        ..NONE
    },
    Program {
        names: &["git clone"],
        operands: usize::MAX,
        scripts: &["-u", "--upload-pack", "-c", "--config"],
        ..NONE
    },
    Program {
        names: &[
            "git fetch",
            "git pull",
            "git ls-remote",
            "git archive",
            "git push",
        ],
        operands: usize::MAX,
        scripts: &["--upload-pack", "--receive-pack", "--exec"],
        ..NONE
    },
    Program {
        names: &["jobs"],
        flags: "lnprsx",
        ..NONE
    },
    Program {
        names: &["git filter-branch"],
        operands: usize::MAX,
        scripts: &[
            "--tree-filter",
            "--index-filter",
            "--env-filter",
            "--msg-filter",
            "--commit-filter",
            "--parent-filter",
            "--tag-name-filter",
            "--setup",
        ],
        ..NONE
    },
    Program {
        names: &["exec"],
        role: Role::Evaluates,
        flags: "cl",
        valued: "a",
        ..NONE
    },
];
