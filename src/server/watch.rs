//! `WatchTools`: what a model may see, then every change of it.
//!
//! A cursor is a revision of the registry; one that is not the present revision is too old, since
//! changes are compared and not kept. Never holds the registry up.

use std::collections::BTreeMap;

use tokio::sync::watch;
use tokio_stream::Stream;
use tonic::Status;

use super::registry::Tools;
use super::status::Failure;
use crate::gate::ids::ToolName;
use crate::gate::tool::SharedTool;
use crate::pb::v1::{self as pb, ErrorReason};

/// Tools in one message of the snapshot.
const TOOLS_AT_ONCE: usize = 500;

/// One watcher.
pub(super) struct ToolWatch {
    tools: Tools,
    toolset: Option<String>,
    changes: watch::Receiver<u64>,
    seen: BTreeMap<ToolName, SharedTool>,
    /// What the first messages hold. None: they have been sent.
    snapshot: Option<Vec<SharedTool>>,
}

impl ToolWatch {
    pub(super) fn start(tools: Tools, request: &pb::WatchToolsRequest) -> Result<Self, Failure> {
        let toolset = (!request.toolset.is_empty()).then(|| request.toolset.clone());
        let mut changes = tools.engine.directory.watch();
        let revision = *changes.borrow_and_update();
        let present = tools.engine.list_tools(toolset.as_deref())?;
        let resumes = match request.after_cursor.as_str() {
            "" => false,
            cursor if cursor == revision.to_string() => true,
            _ => {
                return Err(Failure::new(
                    ErrorReason::CursorExpired,
                    "the cursor is too old; start from a snapshot",
                ));
            }
        };
        Ok(Self {
            seen: by_name(&present),
            snapshot: (!resumes).then_some(present),
            tools,
            toolset,
            changes,
        })
    }

    pub(super) fn into_stream(
        self,
    ) -> impl Stream<Item = Result<pb::WatchToolsResponse, Status>> + Send {
        futures_util::stream::unfold(self, |mut watch| async move {
            let next = watch.next().await?;
            Some((Ok(next), watch))
        })
    }

    async fn next(&mut self) -> Option<pb::WatchToolsResponse> {
        if let Some(snapshot) = &mut self.snapshot {
            let rest = snapshot.split_off(snapshot.len().min(TOOLS_AT_ONCE));
            let now = std::mem::replace(snapshot, rest);
            let complete = snapshot.is_empty();
            if complete {
                self.snapshot = None;
            }
            let shown = now.iter().map(|tool| self.tools.show(tool)).collect();
            return Some(self.message(shown, complete));
        }
        loop {
            self.changes.changed().await.ok()?;
            let changed = self.compare();
            if !changed.is_empty() {
                return Some(self.message(changed, false));
            }
        }
    }

    /// What came, changed or went since the last look.
    fn compare(&mut self) -> Vec<pb::Tool> {
        self.changes.borrow_and_update();
        let present = self
            .tools
            .engine
            .list_tools(self.toolset.as_deref())
            .unwrap_or_default();
        let now = by_name(&present);
        let came = now
            .iter()
            .filter(|(name, tool)| {
                let before = self.seen.get(*name);
                before.is_none_or(|before| before.generation != tool.generation)
            })
            .map(|(_, tool)| self.tools.show(tool));
        let went = self
            .seen
            .iter()
            .filter(|(name, _)| !now.contains_key(*name))
            .map(|(_, tool)| pb::Tool {
                state: pb::ToolState::Removed as i32,
                ..self.tools.show(tool)
            });
        let changed = came.chain(went).collect();
        self.seen = now;
        changed
    }

    fn message(&self, tools: Vec<pb::Tool>, snapshot_complete: bool) -> pb::WatchToolsResponse {
        pb::WatchToolsResponse {
            tools,
            snapshot_complete,
            cursor: self.changes.borrow().to_string(),
        }
    }
}

fn by_name(tools: &[SharedTool]) -> BTreeMap<ToolName, SharedTool> {
    let named = |tool: &SharedTool| (tool.definition.name.clone(), tool.clone());
    tools.iter().map(named).collect()
}
