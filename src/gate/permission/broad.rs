//! Programs whose beginning says little about what they do.
//!
//! A prefix of one of these lets nearly anything run. Only names: how a command is unwrapped is the
//! analysis of commands.

/// Run what their arguments say: shells, interpreters, wrappers, package runners.
const RUNNERS: &[&str] = &[
    "ash",
    "awk",
    "bash",
    "bun",
    "bunx",
    "busybox",
    "cmd",
    "command",
    "csh",
    "dash",
    "deno",
    "direnv",
    "doas",
    "env",
    "eval",
    "exec",
    "expect",
    "fish",
    "find",
    "flock",
    "gawk",
    "ionice",
    "ksh",
    "lua",
    "make",
    "mawk",
    "nice",
    "node",
    "nohup",
    "npx",
    "nsenter",
    "osascript",
    "parallel",
    "perl",
    "php",
    "pipx",
    "pkexec",
    "powershell",
    "pwsh",
    "python",
    "python2",
    "python3",
    "ruby",
    "script",
    "sed",
    "setsid",
    "sh",
    "socat",
    "ssh",
    "stdbuf",
    "strace",
    "su",
    "sudo",
    "tclsh",
    "time",
    "timeout",
    "tmux",
    "uvx",
    "watch",
    "xargs",
    "zsh",
];

/// Destroy what their arguments name.
const DESTROYERS: &[&str] = &["chmod", "chown", "dd", "mkfs", "mv", "rm", "rmdir", "shred"];

/// Say nothing before their sub-command.
const UMBRELLAS: &[&str] = &[
    "aws",
    "az",
    "cargo",
    "docker",
    "gcloud",
    "gh",
    "git",
    "go",
    "helm",
    "kubectl",
    "npm",
    "pip",
    "pnpm",
    "podman",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];

/// Package runners that hide behind a sub-command.
const RUNNER_PAIRS: &[[&str; 2]] = &[
    ["npm", "exec"],
    ["npm", "x"],
    ["pnpm", "dlx"],
    ["pnpm", "exec"],
    ["yarn", "dlx"],
    ["uv", "run"],
    ["cargo", "run"],
    ["go", "run"],
    ["docker", "exec"],
    ["docker", "run"],
    ["podman", "run"],
    ["kubectl", "exec"],
    ["devbox", "run"],
    ["direnv", "exec"],
];

/// Why a prefix of these words lets nearly anything run, if it does.
#[must_use]
pub fn too_wide(words: &[impl AsRef<str>]) -> Option<&'static str> {
    let mut words = words.iter().map(AsRef::as_ref);
    let Some(program) = words.next() else {
        return Some("it names no program");
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    if RUNNERS.contains(&name) {
        return Some("the program runs what its arguments say");
    }
    if DESTROYERS.contains(&name) {
        return Some("the program destroys what its arguments name");
    }
    match words.next() {
        None if UMBRELLAS.contains(&name) => Some("the program does nothing without a sub-command"),
        Some(second) if RUNNER_PAIRS.contains(&[name, second]) => {
            Some("the sub-command runs what its arguments say")
        }
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_that_let_anything_run_are_known() {
        let wide: [&[&str]; 8] = [
            &[],
            &["python3"],
            &["/usr/bin/env"],
            &["sudo", "ls"],
            &["rm"],
            &["git"],
            &["npm", "exec"],
            &["find", "."],
        ];
        for words in wide {
            assert!(too_wide(words).is_some(), "{words:?}");
        }
        for words in [
            ["git", "status"],
            ["npm", "test"],
            ["cargo", "test"],
            ["./gradlew", "x"],
        ] {
            assert_eq!(too_wide(&words), None);
        }
    }
}
