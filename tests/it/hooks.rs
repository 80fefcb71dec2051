//! Hooks over the wire and in the configuration.
//!
//! What their words do inside a turn is the turn machine's tests' business.

mod answers;
mod built_in;
mod everywhere;
mod limits;
mod loops;
mod matrix;
mod oracle;
mod remote;
mod required;
mod restarting;

use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::hook_service_client::HookServiceClient;

use crate::support::sidecar::Sidecar;
use crate::support::soon;

/// All hooks as an administrator sees them.
async fn listed(sidecar: &Sidecar) -> Vec<pb::HookInfo> {
    let mut hooks = HookServiceClient::new(sidecar.control_channel().await);
    let listed = soon("hooks", hooks.list_hooks(pb::ListHooksRequest {})).await;
    listed.unwrap().into_inner().hooks
}

/// Waits until this holds of the listed hooks.
async fn until(sidecar: &Sidecar, holds: impl Fn(&[pb::HookInfo]) -> bool) {
    let is_so = async { while !holds(&listed(sidecar).await) {} };
    soon("the hooks to be so", is_so).await;
}
