//! What hooks are, which calls they are for, and what their words together mean.
//!
//! Built-in hooks are judged here; remote ones are asked by others and their words folded here. Never
//! waits, and never decides a call: what the hooks say is one voice among those that
//! `permission` hears. `hook` is read first, then `verdict`, `before` and `after`.

mod after;
mod before;
mod builtin;
mod foresight;
mod hook;
mod kept;
mod matcher;
mod path;
mod rewrite;
mod verdict;
mod words;

pub use after::{AfterChain, AfterFold};
pub use before::{Denial, Earlier, Fold, Heard};
pub use builtin::{BuiltInHook, Builtin, BuiltinError, BuiltinVerdict, Judged};
pub use foresight::{Foreseen, Foresight, arguments_of, voice_of};
pub use hook::{
    Body, HOOKS_MAX, Hook, HookList, HookPlace, OnFailure, Point, RequiredHook, TIMEOUT_DEFAULT_MS,
    TIMEOUT_MAX_MS,
};
pub use kept::{KeptHook, RestoredHook};
pub use matcher::{Matched, Matcher, MatcherError, MatcherParts};
pub use path::is_inside;
pub use verdict::{
    AfterAction, AfterVerdict, ApprovalAction, ApprovalVerdict, BeforeAction, BeforeVerdict,
    FailureKind, HookAnswer, HookFailure, INJECTED_MAX, RunStatus,
};
pub use words::{
    HookText, HookWords, Injected, KeptBack, MessageRole, TEXT_CHARACTERS_MAX, cut_words,
};
