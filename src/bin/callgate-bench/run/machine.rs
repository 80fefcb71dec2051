//! What was measured, and where: revision, processors, kernel, disk.
//!
//! Anything that cannot be found is an empty text. Never fails.

use std::path::Path;
use std::process::Command;

use serde::Serialize;

/// The machine and the revision.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Machine {
    pub(super) revision: String,
    pub(super) changed_since_revision: bool,
    pub(super) cpus: usize,
    pub(super) cpu_model: String,
    pub(super) kernel: String,
    pub(super) data_disk: String,
    pub(super) load_before: String,
}

impl Machine {
    pub(super) fn look(data_dir: &Path) -> Self {
        let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = file("/proc/cpuinfo");
        let model = cpuinfo
            .lines()
            .find_map(|line| line.strip_prefix("model name"));
        Self {
            revision: git(&["rev-parse", "--short=12", "HEAD"]),
            changed_since_revision: !git(&["status", "--porcelain"]).is_empty(),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            cpu_model: model
                .map_or("", |rest| rest.trim_matches([':', ' ', '\t']))
                .to_owned(),
            kernel: file("/proc/sys/kernel/osrelease").trim().to_owned(),
            data_disk: file_system(data_dir),
            load_before: load(),
        }
    }
}

/// The processors that this process may use, as a list such as `0-3,6`.
pub(super) fn allowed_cpus() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(list.trim().to_owned())
}

/// The last of a list of processors: the first one often serves interrupts.
pub(super) fn last_cpu(list: &str) -> Option<String> {
    let last = list.rsplit([',', '-']).next()?;
    last.parse::<u32>().ok().map(|cpu| cpu.to_string())
}

/// The kind of the file system that holds `path`.
pub(super) fn file_system(path: &Path) -> String {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    mounts
        .lines()
        .filter_map(|line| {
            let mut fields = line.split(' ').skip(1);
            Some((fields.next()?, fields.next()?))
        })
        .filter(|(mount, _)| path.starts_with(mount))
        .max_by_key(|(mount, _)| mount.len())
        .map_or_else(String::new, |(_, kind)| kind.to_owned())
}

/// The load averages.
pub(super) fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn git(arguments: &[&str]) -> String {
    let ran = Command::new("git").args(arguments).output();
    ran.ok()
        .filter(|output| output.status.success())
        .map_or_else(String::new, |output| {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_cpu_is_the_end_of_the_list() {
        assert_eq!(last_cpu("0-3,6").as_deref(), Some("6"));
        assert_eq!(last_cpu("0-1").as_deref(), Some("1"));
        assert_eq!(last_cpu("").as_deref(), None);
    }
}
