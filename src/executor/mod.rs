//! Talks to tool processes: their streams, their tools, their slots.
//!
//! `session` runs one stream over any carrier, `pool` knows who has room and who holds what,
//! `directory` keeps the registry. Never decides whether a call may run, and never remembers anything
//! over a restart.

mod convert;
mod convert_inquiry;
mod directory;
mod handshake;
mod inbound;
mod lanes;
mod pool;
mod session;
mod session_end;

use std::sync::Arc;

use crate::gate::turn::Input;

pub(crate) use convert::definition as read_definition;
pub use convert::{stream_limits, timing as stream_timing, tool_result};
pub use convert_inquiry::{mode_number, source_number};
pub use directory::{Directory, RegistryJournal};
pub use handshake::NameBinding;
pub use lanes::{LaneStream, Lanes};
pub use pool::{DispatchContext, ExecutorView, InstanceState, Pool};
pub use session::{Identity, Sessions, StreamSettings};
pub use session_end::{Broken, SessionEnd};

/// Where a turn takes its inputs. May be called from any task, and never waits.
pub trait Mailbox: Send + Sync {
    /// Hands the turn one input.
    fn deliver(&self, input: Input);
}

/// A mailbox that several may hold.
pub type SharedMailbox = Arc<dyn Mailbox>;
