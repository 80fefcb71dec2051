//! `RegistryService`: shows tools and executors, exports tools for models, keeps toolsets.
//!
//! Never registers a tool: that is the executor stream.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use tokio_stream::Stream;
use tonic::{Request, Response, Status};

use super::access::principal;
use super::convert;
use super::status::Failure;
use super::watch::ToolWatch;
use crate::engine::Engine;
use crate::executor::{ExecutorView, InstanceState};
use crate::gate::ids::ToolName;
use crate::gate::tool::SharedTool;
use crate::gate::toolset::Toolset;
use crate::pb::v1 as pb;
use crate::pb::v1::registry_service_server::RegistryService;

/// Tools of a page that names no size, and the most that one may name.
const TOOLS_DEFAULT: u32 = 500;
const TOOLS_MAX: u32 = 2_000;
/// The same for executors and toolsets.
const PAGE_DEFAULT: u32 = 100;
const PAGE_MAX: u32 = 1_000;
/// An answer ends before this size, in bytes.
const ANSWER_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Serves the registry.
#[derive(Clone)]
pub struct Tools {
    /// Does the work.
    pub engine: Arc<Engine>,
}

impl Tools {
    /// A tool as it is now.
    pub(super) fn show(&self, tool: &SharedTool) -> pb::Tool {
        let (instances, in_flight) = self.engine.pool.usage(tool);
        let state = match instances {
            0 => pb::ToolState::Unavailable,
            _ => pb::ToolState::Active,
        };
        pb::Tool {
            definition: Some(convert::definition(tool)),
            tool_digest: Bytes::copy_from_slice(&tool.digest.0),
            generation: tool.generation,
            owner: tool.owner.to_string(),
            state: state as i32,
            instances,
            in_flight,
            registered_at_ms: tool.registered_at.0,
            changed_fields: tool
                .changed_fields
                .iter()
                .map(ToString::to_string)
                .collect(),
        }
    }

    fn list(&self, request: &pb::ListToolsRequest) -> Result<pb::ListToolsResponse, Failure> {
        let format = convert::format(request.format)?;
        let tools = self.engine.list_tools(toolset(&request.toolset))?;
        let (snapshot_id, export) = self.engine.snapshot_tools(&tools, format);
        let mut answer = pb::ListToolsResponse {
            tool_snapshot_id: snapshot_id,
            ..pb::ListToolsResponse::default()
        };
        if let (Some(export), Some(format)) = (export, format) {
            let aliases = tools.iter().zip(&export.names);
            answer.tool_export = Some(pb::ToolExport {
                format: convert::format_number(format),
                tools_json: match tools.is_empty() {
                    true => Bytes::new(),
                    false => export.tools_json.clone(),
                },
                aliases: aliases
                    .filter(|(tool, name)| tool.definition.name != **name)
                    .map(|(tool, name)| pb::ToolAlias {
                        alias: name.to_string(),
                        tool: tool.definition.name.to_string(),
                    })
                    .collect(),
                losses: Vec::new(),
            });
            return Ok(answer);
        }
        let size = size_of(request.page_size, TOOLS_DEFAULT, TOOLS_MAX)?;
        let after = request.page_token.as_str();
        let mut bytes = 0;
        for tool in tools
            .iter()
            .filter(|tool| tool.definition.name.as_str() > after)
        {
            let full = answer.tools.len() >= size || bytes > ANSWER_BYTES_MAX;
            if let (true, Some(last)) = (full, answer.tools.last()) {
                let last = last.definition.as_ref().map(|last| last.name.clone());
                answer.next_page_token = last.unwrap_or_default();
                break;
            }
            let shown = self.show(tool);
            bytes += prost::Message::encoded_len(&shown);
            answer.tools.push(shown);
        }
        Ok(answer)
    }
}

fn toolset(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}

fn size_of(named: u32, default: u32, max: u32) -> Result<usize, Failure> {
    if named > max {
        return Err(Failure::field(
            "page_size",
            format!("must be at most {max}"),
        ));
    }
    let size = if named == 0 { default } else { named };
    Ok(usize::try_from(size).unwrap_or(usize::MAX))
}

fn toolset_message(toolset: &Toolset) -> pb::Toolset {
    pb::Toolset {
        name: toolset.name.clone(),
        base: toolset.base.clone(),
        include: toolset.include.clone(),
        exclude: toolset.exclude.clone(),
        etag: toolset.version.to_string(),
    }
}

fn executor_message(view: ExecutorView) -> pb::ExecutorInfo {
    let state = match view.state {
        InstanceState::Ready => pb::ExecutorState::Ready,
        InstanceState::Draining => pb::ExecutorState::Draining,
        InstanceState::Reconnecting => pb::ExecutorState::Reconnecting,
    };
    let [name, version, language, language_version] = view.sdk;
    pb::ExecutorInfo {
        executor_name: view.owner.to_string(),
        instance_id: view.instance.to_string(),
        connection_id: view.connection,
        state: state as i32,
        tools: view.tools.iter().map(ToString::to_string).collect(),
        max_concurrent_executions: view.slots,
        in_flight: view.in_flight,
        sdk: Some(pb::Sdk {
            name,
            version,
            language,
            language_version,
        }),
        connected_at_ms: view.connected_at_ms,
        last_seen_at_ms: view.last_seen_at_ms,
        round_trip_ms: view.round_trip_ms.map(convert::ms32),
    }
}

#[tonic::async_trait]
impl RegistryService for Tools {
    async fn list_tools(
        &self,
        request: Request<pb::ListToolsRequest>,
    ) -> Result<Response<pb::ListToolsResponse>, Status> {
        Ok(Response::new(self.list(request.get_ref())?))
    }

    async fn get_tool(
        &self,
        request: Request<pb::GetToolRequest>,
    ) -> Result<Response<pb::GetToolResponse>, Status> {
        let request = request.into_inner();
        let registry = self.engine.directory.registry();
        let tool = registry
            .get(&ToolName::trusted(request.name.as_str()))
            .filter(|tool| {
                request.tool_digest.is_empty() || request.tool_digest == tool.digest.0[..]
            })
            .ok_or_else(|| Failure::not_found("tool", &request.name))?;
        Ok(Response::new(pb::GetToolResponse {
            tool: Some(self.show(tool)),
        }))
    }

    type WatchToolsStream =
        Pin<Box<dyn Stream<Item = Result<pb::WatchToolsResponse, Status>> + Send>>;

    async fn watch_tools(
        &self,
        request: Request<pb::WatchToolsRequest>,
    ) -> Result<Response<Self::WatchToolsStream>, Status> {
        let request = request.into_inner();
        let watch = ToolWatch::start(self.clone(), &request)?;
        Ok(Response::new(Box::pin(watch.into_stream())))
    }

    async fn unregister_tool(
        &self,
        request: Request<pb::UnregisterToolRequest>,
    ) -> Result<Response<pb::UnregisterToolResponse>, Status> {
        let by = principal(&request);
        let name = request.into_inner().name;
        self.engine
            .directory
            .unregister(&ToolName::trusted(name.as_str()), &by)
            .ok_or_else(|| Failure::not_found("tool", &name))?;
        self.engine.keep_registry().await.map_err(Failure::from)?;
        Ok(Response::new(pb::UnregisterToolResponse {}))
    }

    async fn list_executors(
        &self,
        request: Request<pb::ListExecutorsRequest>,
    ) -> Result<Response<pb::ListExecutorsResponse>, Status> {
        let request = request.into_inner();
        let size = size_of(request.page_size, PAGE_DEFAULT, PAGE_MAX)?;
        let position = |view: &ExecutorView| format!("{}\n{}", view.owner, view.instance);
        let mut views: Vec<ExecutorView> = self.engine.pool.executors();
        views.retain(|view| {
            let named = request.executor_name.as_str();
            (named.is_empty() || view.owner.as_str() == named)
                && position(view).as_str() > request.page_token.as_str()
        });
        let more = views.len() > size;
        views.truncate(size);
        let next = views.last().filter(|_| more).map(position);
        Ok(Response::new(pb::ListExecutorsResponse {
            executors: views.into_iter().map(executor_message).collect(),
            next_page_token: next.unwrap_or_default(),
        }))
    }

    async fn put_toolset(
        &self,
        request: Request<pb::PutToolsetRequest>,
    ) -> Result<Response<pb::PutToolsetResponse>, Status> {
        let by = principal(&request);
        let toolset = request.into_inner().toolset.unwrap_or_default();
        self.check_toolset_size(&toolset)?;
        let expected = match toolset.etag.is_empty() {
            true => None,
            false => Some(toolset.etag.parse().unwrap_or(0)),
        };
        let toolset = Toolset {
            name: toolset.name,
            base: toolset.base,
            include: toolset.include,
            exclude: toolset.exclude,
            version: 0,
        };
        let put = self
            .engine
            .directory
            .put_toolset(toolset, expected, &by)
            .map_err(Failure::from)?;
        self.engine.keep_registry().await.map_err(Failure::from)?;
        Ok(Response::new(pb::PutToolsetResponse {
            toolset: Some(toolset_message(&put)),
        }))
    }

    async fn copy_toolset(
        &self,
        request: Request<pb::CopyToolsetRequest>,
    ) -> Result<Response<pb::CopyToolsetResponse>, Status> {
        let by = principal(&request);
        let request = request.into_inner();
        self.check_copy_size(&request)?;
        let copied = self
            .engine
            .directory
            .copy_toolset(&request.source, &request.target, &request.excluding, &by)
            .map_err(Failure::from)?;
        self.engine.keep_registry().await.map_err(Failure::from)?;
        Ok(Response::new(pb::CopyToolsetResponse {
            toolset: Some(toolset_message(&copied)),
        }))
    }

    async fn list_toolsets(
        &self,
        request: Request<pb::ListToolsetsRequest>,
    ) -> Result<Response<pb::ListToolsetsResponse>, Status> {
        let request = request.into_inner();
        let size = size_of(request.page_size, PAGE_DEFAULT, PAGE_MAX)?;
        let registry = self.engine.directory.registry();
        let mut toolsets: Vec<_> = registry
            .toolsets
            .iter()
            .filter(|toolset| toolset.name.as_str() > request.page_token.as_str())
            .take(size + 1)
            .map(|toolset| toolset_message(toolset))
            .collect();
        let more = toolsets.len() > size;
        toolsets.truncate(size);
        let next = toolsets.last().filter(|_| more);
        Ok(Response::new(pb::ListToolsetsResponse {
            next_page_token: next.map_or_else(String::new, |last| last.name.clone()),
            toolsets,
        }))
    }

    async fn delete_toolset(
        &self,
        request: Request<pb::DeleteToolsetRequest>,
    ) -> Result<Response<pb::DeleteToolsetResponse>, Status> {
        let by = principal(&request);
        let name = request.into_inner().name;
        self.engine
            .directory
            .delete_toolset(&name, &by)
            .map_err(Failure::from)?;
        self.engine.keep_registry().await.map_err(Failure::from)?;
        Ok(Response::new(pb::DeleteToolsetResponse {}))
    }
}

impl Tools {
    /// A copy is no larger than a toolset that is put.
    fn check_copy_size(&self, request: &pb::CopyToolsetRequest) -> Result<(), Failure> {
        let registry = self.engine.directory.registry();
        let present = registry.toolsets.get(&request.target);
        let mut include = present.map_or_else(Vec::new, |present| present.include.clone());
        include.extend(registry.copied_names(&request.source, &request.excluding));
        self.check_toolset_size(&pb::Toolset {
            name: request.target.clone(),
            include,
            exclude: request.excluding.clone(),
            ..pb::Toolset::default()
        })
    }

    fn check_toolset_size(&self, toolset: &pb::Toolset) -> Result<(), Failure> {
        let limits = self.engine.limits();
        let allowed = limits.toolset_entries_max;
        let actual = toolset.include.len().max(toolset.exclude.len()) as u64;
        if actual > allowed {
            return Err(Failure::limit(
                "toolset_entries_max",
                allowed,
                actual,
                false,
            ));
        }
        let registry = self.engine.directory.registry();
        let toolsets = &registry.toolsets;
        let is_new = toolsets.get(&toolset.name).is_none();
        let allowed = limits.toolsets_max;
        let actual = toolsets.len() as u64 + 1;
        match is_new && actual > allowed {
            true => Err(Failure::limit("toolsets_max", allowed, actual, true)),
            false => Ok(()),
        }
    }
}
