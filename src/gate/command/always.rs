//! What a lasting approval of a command could be about.
//!
//! Never stores or formats a rule: the words are data, and whoever makes a rule of them escapes
//! what its grammar needs.

use super::Analysis;
use super::allow::AllowView;
use super::builtins::SHELLS;
use super::peel::basename;
use super::programs::{Role, programs_called};
use super::reading::RedirectionKind;
use super::segment::Segment;

/// How far a lasting approval reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Exactly these words.
    Exact,
    /// These words, and whatever follows them.
    Prefix,
}

/// One lasting approval that can be offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The index of the segment that it covers. Offer it only if that segment is undecided.
    pub segment: usize,
    /// How far it reaches.
    pub reach: Reach,
    /// The words, of the same form as the segment's view for allow rules.
    pub words: Vec<String>,
}

/// Programs that take sub-commands: how many words, options not counted, say what is done.
const ARITY: &[(&str, usize)] = &[
    ("apt", 2),
    ("apt-get", 2),
    ("aws", 3),
    ("az", 3),
    ("brew", 2),
    ("bun", 2),
    ("bun run", 3),
    ("bundle", 2),
    ("cargo", 2),
    ("composer", 2),
    ("deno", 2),
    ("deno task", 3),
    ("docker", 2),
    ("docker compose", 3),
    ("docker container", 3),
    ("docker image", 3),
    ("docker network", 3),
    ("docker volume", 3),
    ("dotnet", 2),
    ("flutter", 2),
    ("gcloud", 3),
    ("gh", 2),
    ("git", 2),
    ("git config", 3),
    ("git remote", 3),
    ("git stash", 3),
    ("git submodule", 3),
    ("git worktree", 3),
    ("go", 2),
    ("go mod", 3),
    ("gradle", 2),
    ("helm", 2),
    ("hvigorw", 2),
    ("jj", 2),
    ("just", 2),
    ("kubectl", 2),
    ("make", 2),
    ("mise", 2),
    ("mvn", 2),
    ("nix", 2),
    ("npm", 2),
    ("npm run", 3),
    ("nx", 2),
    ("ohpm", 2),
    ("pip", 2),
    ("pip3", 2),
    ("pnpm", 2),
    ("pnpm run", 3),
    ("podman", 2),
    ("poetry", 2),
    ("prisma", 2),
    ("rustup", 2),
    ("swift", 2),
    ("systemctl", 2),
    ("terraform", 2),
    ("tofu", 2),
    ("turbo", 2),
    ("uv", 2),
    ("uv pip", 3),
    ("yarn", 2),
    ("yarn run", 3),
];

/// Programs that may run anything, or destroy so much that a prefix says nothing.
const NEVER_PREFIX: &[&str] = &[
    "python",
    "python2",
    "python3",
    "pypy",
    "pypy3",
    "node",
    "nodejs",
    "deno",
    "bun",
    "perl",
    "ruby",
    "php",
    "lua",
    "luajit",
    "osascript",
    "powershell",
    "pwsh",
    "cmd",
    "tclsh",
    "expect",
    "gdb",
    "lldb",
    "awk",
    "gawk",
    "mawk",
    "sed",
    "vim",
    "vi",
    "ed",
    "emacs",
    "rm",
    "rmdir",
    "dd",
    "chmod",
    "chown",
    "chgrp",
    "shred",
    "mkfs",
    "fdisk",
    "mount",
    "umount",
    "kill",
    "pkill",
    "killall",
    "shutdown",
    "reboot",
    "curl",
    "wget",
    "nc",
    "ncat",
    "socat",
    "scp",
    "rsync",
    "tee",
    "cd",
    "pushd",
    "popd",
    "test",
    "[",
    "sqlite3",
    "psql",
    "mysql",
    "crontab",
    "at",
    "tmux",
    "screen",
];

/// Sub-commands that run whatever package or file is named behind them.
const NEVER_PREFIX_SUB: &[&str] = &[
    "npm exec",
    "npm x",
    "pnpm dlx",
    "pnpm exec",
    "yarn dlx",
    "yarn exec",
    "bun x",
    "bun run",
    "deno run",
    "deno eval",
    "uv run",
    "uv tool",
    "poetry run",
    "pipx run",
    "cargo run",
    "cargo install",
    "go run",
    "docker run",
    "docker exec",
    "podman run",
    "podman exec",
    "kubectl exec",
    "kubectl delete",
    "kubectl run",
    "git config",
    "gh api",
    "gh alias",
    "nix run",
    "nix develop",
    "nix shell",
    "mise exec",
    "bundle exec",
    "dotnet run",
    "swift run",
    "terraform destroy",
    "git filter-branch",
    "npm config",
    "make -f",
];

/// The lasting approvals that can be offered for a command; none if any part of it is open.
///
/// At most two for each segment. The caller keeps those of undecided segments, and offers nothing
/// if there are more than [`super::limits::CANDIDATE_SEGMENTS_MAX`] of these.
#[must_use]
pub fn candidates(analysis: &Analysis) -> Vec<Candidate> {
    let views: Option<Vec<&AllowView>> = analysis.segments.iter().map(offered).collect();
    let Some(views) = views.filter(|_| analysis.understood.is_ok()) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (segment, view) in views.into_iter().enumerate() {
        let words = &view.view.words;
        if changes_place(words) {
            continue;
        }
        found.push(Candidate {
            segment,
            reach: Reach::Exact,
            words: words.clone(),
        });
        found.extend(prefix(view).map(|words| Candidate {
            segment,
            reach: Reach::Prefix,
            words,
        }));
    }
    found
}

/// The view of a segment about which something lasting may be said.
fn offered(segment: &Segment) -> Option<&AllowView> {
    let view = segment.allow_view().ok()?;
    let plain = segment.redirections.iter().all(|one| {
        let here = matches!(
            one.kind,
            RedirectionKind::HereDocument | RedirectionKind::HereString
        );
        one.is_harmless() && !here
    });
    let shows = !view.view.text.chars().any(char::is_control);
    (plain && shows && segment.assignments.is_empty()).then_some(view)
}

/// Where a later command runs is no property of a rule.
fn changes_place(words: &[String]) -> bool {
    words
        .first()
        .is_some_and(|name| super::changes_directory(name))
}

/// The words that a prefix would have, if one may be offered.
fn prefix(view: &AllowView) -> Option<Vec<String>> {
    let words = &view.view.words;
    let name = basename(words.first()?);
    if view.spelled_min > 1 || is_never(name) {
        return None;
    }
    let length = prefix_length(words)?;
    let prefix = words.get(..length)?;
    let head = prefix.iter().filter(|word| !word.starts_with('-'));
    let head = head.take(2).cloned().collect::<Vec<_>>().join(" ");
    (!NEVER_PREFIX_SUB.contains(&head.as_str())).then(|| prefix.to_vec())
}

fn is_never(name: &str) -> bool {
    let versioned = name.trim_end_matches(|last: char| last.is_ascii_digit() || last == '.');
    let mut wrappers = programs_called(name).iter().filter(|named| {
        // A name of one word.
        named.program.role != Role::Global && named.rest.is_empty()
    });
    NEVER_PREFIX.contains(&name)
        || NEVER_PREFIX.contains(&versioned)
        || SHELLS.contains(&name)
        || wrappers.next().is_some()
}

/// How many words the prefix has: as many as say what is done, and the options right behind them.
/// Nothing if the command has fewer, or options before them.
fn prefix_length(words: &[String]) -> Option<usize> {
    let wanted = arity(words);
    let said = words.iter().take_while(|word| !word.starts_with('-'));
    if said.take(wanted).count() < wanted {
        return None;
    }
    let options = words.iter().skip(wanted);
    let options = options.take_while(|word| word.starts_with('-') && *word != "--");
    Some(wanted + options.count())
}

/// The number of words of the longest known beginning; one if there is none.
fn arity(words: &[String]) -> usize {
    let known = ARITY.iter().filter(|(name, _)| {
        let names = name.split(' ').count();
        let first = words.get(..names).map(|words| words.join(" "));
        first.is_some_and(|first| first == *name)
    });
    let longest = known.max_by_key(|(name, _)| name.len());
    longest.map_or(1, |(_, words)| *words)
}
