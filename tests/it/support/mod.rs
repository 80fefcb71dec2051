//! What tests over the wire share: a sidecar process, scripted executors, an orchestrator, tools.
//!
//! Everything waits for events, never for time to pass, and at most [`PATIENCE`]. Never leaves a process
//! behind.

pub(crate) mod approver;
pub(crate) mod desk;
pub(crate) mod executor;
pub(crate) mod failure;
pub(crate) mod hook;
pub(crate) mod orchestrator;
pub(crate) mod sandbox;
pub(crate) mod shell_text;
pub(crate) mod sidecar;
pub(crate) mod tmux;
pub(crate) mod tools;
pub(crate) mod worker;

use std::future::Future;
use std::time::Duration;

use callgate_client::pb::v1 as pb;

use executor::{Executor, hello};
use orchestrator::Orchestrator;
use sidecar::{Setup, Sidecar};

/// Longest wait for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for what must happen, at most [`PATIENCE`].
pub(crate) async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, happens).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for {what}"),
    }
}

/// A sidecar, one executor with these tools, and an orchestrator.
pub(crate) async fn set_up(
    setup: Setup,
    tools: impl IntoIterator<Item = pb::ToolDefinition>,
) -> (Sidecar, Executor, Orchestrator) {
    let sidecar = setup.start().await;
    let executor = Executor::join(&sidecar, hello("box", tools)).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    (sidecar, executor, orchestrator)
}

/// Waits until the sidecar has noticed that no executor is connected any more.
pub(crate) async fn until_no_executor(orchestrator: &Orchestrator) {
    until_connected(orchestrator, 0).await;
}

/// Waits until the sidecar has noticed that exactly so many executors are connected.
pub(crate) async fn until_connected(orchestrator: &Orchestrator, count: usize) {
    let mut registry = orchestrator.registry.clone();
    let is_so = async {
        loop {
            let request = pb::ListExecutorsRequest::default();
            let listed = registry.list_executors(request).await.unwrap().into_inner();
            let executors = listed.executors.iter();
            let connected = executors.filter(|executor| !executor.connection_id.is_empty());
            if connected.count() == count {
                return;
            }
        }
    };
    soon("executors to be gone", is_so).await;
}
