//! Programs with options before their sub-command.
//!
//! Data only, in no order: the longest name wins.

use super::programs::{NONE, Program, Role};

/// Programs whose first word behind the options says what they do.
pub(super) const SUBCOMMANDS: &[Program] = &[
    Program {
        names: &["git"],
        role: Role::Global,
        flags: "pP",
        valued: "cC",
        long_flags: &[
            "--paginate",
            "--no-pager",
            "--no-replace-objects",
            "--bare",
            "--literal-pathspecs",
            "--glob-pathspecs",
            "--noglob-pathspecs",
            "--icase-pathspecs",
            "--no-optional-locks",
        ],
        long_valued: &[
            "--exec-path",
            "--git-dir",
            "--work-tree",
            "--namespace",
            "--config-env",
            "--super-prefix",
        ],
        harmless: &["--no-pager", "--no-optional-locks", "-P"],
        ..NONE
    },
    Program {
        names: &["docker", "podman"],
        role: Role::Global,
        flags: "D",
        valued: "Hlc",
        long_flags: &["--debug", "--tls", "--tlsverify"],
        long_valued: &[
            "--config",
            "--context",
            "--host",
            "--log-level",
            "--tlscacert",
            "--tlscert",
            "--tlskey",
        ],
        ..NONE
    },
    Program {
        names: &["docker compose", "docker-compose", "podman compose"],
        role: Role::Global,
        valued: "fp",
        long_flags: &["--verbose", "--compatibility"],
        long_valued: &[
            "--file",
            "--project-name",
            "--profile",
            "--env-file",
            "--project-directory",
        ],
        ..NONE
    },
    Program {
        names: &["kubectl", "oc", "helm"],
        role: Role::Global,
        valued: "nsv",
        long_valued: &[
            "--namespace",
            "--context",
            "--cluster",
            "--kubeconfig",
            "--user",
            "--server",
            "--token",
            "--as",
            "--request-timeout",
            "--kube-context",
        ],
        ..NONE
    },
    Program {
        names: &["npm", "pnpm", "yarn", "bun"],
        role: Role::Global,
        flags: "swg",
        valued: "CF",
        long_flags: &["--silent", "--global", "--recursive", "--workspaces"],
        long_valued: &[
            "--prefix",
            "--cwd",
            "--dir",
            "--filter",
            "--workspace",
            "--loglevel",
        ],
        harmless: &["-s", "--silent"],
        ..NONE
    },
    Program {
        names: &["cargo"],
        role: Role::Global,
        flags: "qv",
        valued: "CZ",
        long_flags: &["--quiet", "--verbose", "--locked", "--offline", "--frozen"],
        long_valued: &["--config", "--color"],
        harmless: &[
            "-q",
            "-v",
            "--quiet",
            "--verbose",
            "--locked",
            "--offline",
            "--frozen",
        ],
        ..NONE
    },
    Program {
        names: &[
            "aws",
            "gcloud",
            "az",
            "gh",
            "terraform",
            "tofu",
            "go",
            "make",
            "systemctl",
        ],
        role: Role::Global,
        flags: "qBkins",
        valued: "RCfIjHM",
        long_flags: &[
            "--debug",
            "--quiet",
            "--user",
            "--no-pager",
            "--no-cli-pager",
        ],
        long_valued: &[
            "--profile",
            "--region",
            "--output",
            "--endpoint-url",
            "--project",
            "--account",
            "--format",
            "--repo",
            "--subscription",
        ],
        harmless: &["--quiet", "-q", "--no-pager", "--no-cli-pager"],
        ..NONE
    },
];
