//! Named points at which a test makes the process die or panic.
//!
//! Only with the feature `failpoints`; without it every point is nothing at all.
//! `CALLGATE_FAILPOINTS=name=kill@3` kills the process at the third passage of `name`, `panic@3` panics
//! there. Never returns an error in place of what the code does.

/// Passes the point `name`.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn pass(_name: &'static str) {}

/// Passes the point `name`.
#[cfg(feature = "failpoints")]
pub fn pass(name: &'static str) {
    armed::pass(name);
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// What happens at a point.
    #[derive(Clone, Copy)]
    enum Action {
        Kill,
        Panic,
    }

    /// Where it happens, and at which passage.
    struct Armed {
        name: String,
        action: Action,
        at: u64,
        passed: AtomicU64,
    }

    fn armed() -> &'static [Armed] {
        static ARMED: OnceLock<Vec<Armed>> = OnceLock::new();
        ARMED.get_or_init(|| {
            let text = std::env::var("CALLGATE_FAILPOINTS").unwrap_or_default();
            text.split(',').filter_map(parse).collect()
        })
    }

    fn parse(entry: &str) -> Option<Armed> {
        let (name, action) = entry.trim().split_once('=')?;
        let (action, at) = match action.split_once('@')? {
            ("kill", at) => (Action::Kill, at),
            ("panic", at) => (Action::Panic, at),
            _ => return None,
        };
        Some(Armed {
            name: name.to_owned(),
            action,
            at: at.parse().ok()?,
            passed: AtomicU64::new(0),
        })
    }

    pub(super) fn pass(name: &str) {
        for armed in armed().iter().filter(|armed| armed.name == name) {
            if armed.passed.fetch_add(1, Ordering::SeqCst) + 1 == armed.at {
                match armed.action {
                    Action::Kill => kill(),
                    Action::Panic => fail(name),
                }
            }
        }
    }

    #[expect(clippy::panic, reason = "what a test asked for")]
    fn fail(name: &str) -> ! {
        panic!("failpoint `{name}`")
    }

    /// Dies as by `kill -9`: no destructor runs, nothing is flushed.
    fn kill() -> ! {
        let pid = std::process::id().to_string();
        let _ = std::process::Command::new("kill")
            .args(["-9", &pid])
            .status();
        std::process::abort()
    }
}
