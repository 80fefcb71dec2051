//! What happens on its own now and then: heartbeats of silent turns, deadlines that come near,
//! forgetting old turns, and telling turns that tools have changed.
//!
//! One task for all turns, so that a turn costs no timer of its own. Never ends a turn.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use super::Engine;
use super::turn_task::NEAR_MS;
use crate::gate::call::CallState;
use crate::gate::event::Event;
use crate::gate::ids::UnixMillis;
use crate::gate::turn::Input;

/// How often silent turns are looked for.
const HEARTBEAT_EVERY: Duration = Duration::from_secs(1);
/// How often old turns are forgotten.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);

impl Engine {
    /// Runs until the engine's tasks are asked to stop.
    pub fn start_sweeping(self: &Arc<Self>) {
        let engine = self.clone();
        self.tasks.spawn("sweep", async move {
            let mut heartbeats = interval(HEARTBEAT_EVERY);
            let mut forgets = interval(FORGET_EVERY);
            heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
            forgets.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut tools = engine.directory.watch();
            loop {
                tokio::select! {
                    () = engine.tasks.stopped() => return,
                    Ok(()) = tools.changed() => engine.tell_tools_changed(),
                    _ = heartbeats.tick() => {
                        engine.nudge_due_turns();
                        engine.send_heartbeats();
                    }
                    _ = forgets.tick() => engine.forget_old_turns().await,
                }
            }
        });
    }

    fn tell_tools_changed(&self) {
        for turn in self.turns.running_turns(None) {
            turn.inbox.push(Input::ToolsChanged, None);
        }
    }

    /// Turns for which a far moment has come near set a timer of their own.
    fn nudge_due_turns(&self) {
        if self.turns.running() == 0 {
            return;
        }
        let near = self.clock.now_ms().saturating_add(NEAR_MS);
        for turn in self.turns.running_turns(None) {
            if turn.due_at() <= near {
                turn.inbox.nudge();
            }
        }
    }

    fn send_heartbeats(&self) {
        if self.turns.running() == 0 {
            return;
        }
        let now = self.now();
        for turn in self.turns.running_turns(None) {
            if now.since(turn.log.last_event_at()) < self.settings.heartbeat_ms {
                continue;
            }
            let calls = turn.log.standing().calls;
            let waits_for_tool = calls.iter().any(|call| call.state == CallState::Executing);
            let what = match (waits_for_tool, *self.store.availability().borrow()) {
                (_, false) => "store",
                (true, true) => "tool",
                (false, true) if turn.log.is_suspended() => "approval",
                (false, true) => "executor",
            };
            turn.log.add(now, Event::Heartbeat(what));
            turn.log.wake();
        }
    }

    async fn forget_old_turns(&self) {
        let before = self
            .clock
            .now_ms()
            .saturating_sub(self.settings.turns_keep_ms);
        match self.store.forget_turns(UnixMillis(before)).await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(turns)) => tracing::info!(turns, "forgot old turns"),
            Ok(Err(error)) => tracing::warn!(%error, "old turns could not be forgotten"),
        }
        let before = self
            .clock
            .now_ms()
            .saturating_sub(self.settings.audit_keep_ms);
        match self.store.forget_audit(UnixMillis(before)).await {
            Ok(Ok(0)) | Err(_) => {}
            Ok(Ok(segments)) => tracing::info!(segments, "dropped old segments of the audit"),
            Ok(Err(error)) => tracing::warn!(%error, "old segments of the audit stay"),
        }
    }
}
