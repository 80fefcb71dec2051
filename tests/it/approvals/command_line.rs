//! `callgate call` of what waits for an approver.
//!
//! What the commands for approvers print is another test's business.

use std::process::Stdio;

use callgate_client::pb::v1 as pb;
use tokio::process::Command;

use super::with_approver;
use crate::support::sidecar::Setup;
use crate::support::soon;

#[tokio::test]
async fn a_call_that_is_ended_by_a_signal_leaves_nothing_that_waits() {
    for signal in ["-TERM", "-INT"] {
        let (sidecar, _executor, _orchestrator, approver) = with_approver(Setup::default()).await;
        let sockets = sidecar.socket();
        let child = Command::new(env!("CARGO_BIN_EXE_callgate"))
            .args(["call", "erase", "{}"])
            .env_clear()
            .env("HOME", sidecar.home())
            .env("CALLGATE_SOCKET_DIR", sockets.parent().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let asked = async {
            loop {
                if let Some(approval) = approver.pending().await.pop() {
                    return approval;
                }
            }
        };
        let asked = soon("the approval", asked).await;
        let pid = child.id().unwrap().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().await;
        assert!(sent.unwrap().success());
        let ended = soon("the command", child.wait_with_output()).await.unwrap();
        assert_eq!(ended.status.code(), Some(1), "{signal}");
        let told = String::from_utf8(ended.stdout).unwrap();
        assert!(told.contains("tool_cancelled"), "{signal}: {told}");
        assert_eq!(approver.pending().await, []);
        let now = approver.get(&asked.approval_id).await.unwrap();
        assert_eq!(now.state(), pb::ApprovalState::Cancelled);
    }
}
