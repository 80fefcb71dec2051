//! `callgate tools`: lists tools, exports them for a model, or checks definitions offline.
//!
//! `--check FILE` needs no sidecar: it judges definitions as the registry would. Never registers one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::registry_service_client::RegistryServiceClient;
use serde_json::Value;
use tonic::Code;

use super::ConfigArguments;
use super::client::{ClientArguments, block_on, failed, word};
use super::output::{Outcome, data, note, outcome, table};
use crate::gate::ids::ToolName;
use crate::gate::schema::SchemaDialect;
use crate::gate::tool::{Kind, ToolDefinition, check_definition, check_name_present};
use crate::tool_import::normalise_parameters;

/// List the tools that a model may see, export them, or check definitions in a file.
#[derive(Debug, clap::Args)]
pub(super) struct Tools {
    /// Only what this toolset shows.
    #[arg(long, default_value = "")]
    toolset: String,
    /// Print the provider's `tools` array instead.
    #[arg(long, value_parser = ["openai_chat"])]
    format: Option<String>,
    /// As one JSON object a line.
    #[arg(long)]
    json: bool,
    /// Check the definitions in this file instead: JSON, an array or one object a line, each with
    /// `name`, `description`, `parameters`, plain or inside `function`.
    #[arg(long, value_name = "FILE")]
    check: Option<PathBuf>,
    /// With --check: rewrite other catalogues' type names first (dict, float, tuple and the like).
    #[arg(long, requires = "check")]
    normalise: bool,
    /// With --check: the dialect of the schemas.
    #[arg(long, requires = "check", default_value = "json-schema-2020-12",
          value_parser = ["core", "json-schema-2020-12"])]
    dialect: String,
    #[command(flatten)]
    client: ClientArguments,
    #[command(flatten)]
    config: ConfigArguments,
}

impl Tools {
    pub(super) fn run(self) -> Outcome {
        match &self.check {
            Some(file) => outcome(self.check_file(file)),
            None => outcome(block_on(self.list())),
        }
    }

    async fn list(&self) -> Result<(), Outcome> {
        let mut registry = RegistryServiceClient::new(self.client.connect().await?);
        let executors = match &self.format {
            Some(_) => Vec::new(),
            None => list_executors(&mut registry).await?,
        };
        let format = match self.format.as_deref() {
            Some(_) => pb::ProviderFormat::OpenaiChat,
            None => pb::ProviderFormat::Unspecified,
        };
        let mut rows = vec![
            ["tool", "risk", "kind", "state", "owner"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let mut page_token = String::new();
        loop {
            let request = pb::ListToolsRequest {
                format: format as i32,
                toolset: self.toolset.clone(),
                page_size: 0,
                page_token,
            };
            let answer = registry
                .list_tools(request)
                .await
                .map_err(|status| failed(&status))?
                .into_inner();
            if let Some(export) = answer.tool_export {
                return print_export(&export);
            }
            for tool in answer.tools {
                let state = state_of(&tool, &executors);
                match self.json {
                    true => data(&tool_json(&tool, &state).to_string()),
                    false => rows.push(tool_row(&tool, state)),
                }
            }
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        if !self.json {
            for line in table(&rows) {
                data(&line);
            }
        }
        Ok(())
    }

    /// Judges every definition of a file as a registry with this configuration would.
    fn check_file(&self, file: &Path) -> Result<(), Outcome> {
        let config = self.config.load()?;
        let rules = config
            .tool_rules()
            .map_err(|error| Outcome::usage(error.to_string()))?;
        let dialect = match self.dialect.as_str() {
            "core" => SchemaDialect::Core,
            _ => SchemaDialect::JsonSchema202012,
        };
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for (position, entry) in read_definitions(file)?.into_iter().enumerate() {
            let definition = self.definition(&entry, dialect);
            let name = definition.name.to_string();
            let judged = check_name_present(&definition.name)
                .and_then(|()| check_definition(definition, &rules, &config.limits));
            let (code, path, message) = match &judged {
                Ok(_) => ("ok", "", String::new()),
                Err(error) => (error.code(), error.path(), error.to_string()),
            };
            *counts.entry(code.to_owned()).or_default() += 1;
            match self.json {
                true => data(
                    &serde_json::json!({
                        "position": position, "name": name, "code": code,
                        "path": path, "message": message,
                    })
                    .to_string(),
                ),
                false if judged.is_err() => data(&format!("{name}: {code}: {message}")),
                false => {}
            }
        }
        let refused: usize = counts
            .iter()
            .filter(|(code, _)| code.as_str() != "ok")
            .map(|(_, count)| count)
            .sum();
        for (code, count) in &counts {
            note(&format!("{count:>6}  {code}"));
        }
        match refused {
            0 => Ok(()),
            refused => Err(Outcome::no(format!("{refused} would be refused"))),
        }
    }

    fn definition(&self, entry: &Value, dialect: SchemaDialect) -> ToolDefinition {
        let function = entry.get("function").unwrap_or(entry);
        let text = |key: &str| {
            let value = function.get(key).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        let parameters = match function
            .get("parameters")
            .or_else(|| function.get("input_schema"))
        {
            None => Bytes::new(),
            Some(schema) if self.normalise => Bytes::from(normalise_parameters(schema).to_string()),
            Some(schema) => Bytes::from(schema.to_string()),
        };
        ToolDefinition {
            name: ToolName::trusted(text("name")),
            description: text("description"),
            parameters,
            dialect,
            risk: None,
            kind: Kind::Other,
            subject: None,
            skip_permission: false,
            idempotent: false,
            exclusive: false,
            timeout_ms: None,
            max_concurrency: 0,
            supports_cancellation: false,
            has_permission_check: false,
            loop_exempt: false,
            loop_key: Vec::new(),
            secret_pointers: Vec::new(),
            services: Vec::new(),
            version: String::new(),
            annotations: Bytes::new(),
        }
    }
}

/// An array of definitions, or one a line.
fn read_definitions(file: &Path) -> Result<Vec<Value>, Outcome> {
    let unreadable = |problem: String| Outcome::failed(format!("`{}`: {problem}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()));
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).map_err(|error| unreadable(error.to_string())))
        .collect()
}

fn print_export(export: &pb::ToolExport) -> Result<(), Outcome> {
    let tools = String::from_utf8_lossy(&export.tools_json);
    data(if tools.is_empty() { "[]" } else { &tools });
    for alias in &export.aliases {
        note(&format!("`{}` stands for `{}`", alias.alias, alias.tool));
    }
    Ok(())
}

fn risk_word(definition: &pb::ToolDefinition) -> String {
    word(definition.risk_level().as_str_name(), "RISK_LEVEL_")
}

fn kind_word(definition: &pb::ToolDefinition) -> String {
    word(definition.kind().as_str_name(), "TOOL_KIND_")
}

/// Every executor. None for a credential that may not see them: the tools alone are an answer, too.
async fn list_executors(
    registry: &mut RegistryServiceClient<AuthorizedChannel>,
) -> Result<Vec<pb::ExecutorInfo>, Outcome> {
    let mut executors = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = pb::ListExecutorsRequest {
            executor_name: String::new(),
            page_size: 0,
            page_token,
        };
        let answer = match registry.list_executors(request).await {
            Ok(answer) => answer.into_inner(),
            Err(status) if status.code() == Code::PermissionDenied => return Ok(Vec::new()),
            Err(status) => return Err(failed(&status)),
        };
        executors.extend(answer.executors);
        page_token = answer.next_page_token;
        if page_token.is_empty() {
            return Ok(executors);
        }
    }
}

/// Whether a call of the tool would run now: the word of its state, or `full` or `draining` where it is
/// active and nobody who runs it takes one more.
fn state_of(tool: &pb::Tool, executors: &[pb::ExecutorInfo]) -> String {
    let state = word(tool.state().as_str_name(), "TOOL_STATE_");
    let name = tool
        .definition
        .as_ref()
        .map_or("", |tool| tool.name.as_str());
    let mut runs = executors
        .iter()
        .filter(|executor| executor.executor_name == tool.owner)
        .filter(|executor| executor.tools.iter().any(|own| own == name))
        .filter(|executor| match executor.state() {
            pb::ExecutorState::Ready | pb::ExecutorState::Draining => true,
            pb::ExecutorState::Unspecified
            | pb::ExecutorState::Reconnecting
            | pb::ExecutorState::Closed => false,
        })
        .peekable();
    if tool.state() != pb::ToolState::Active || runs.peek().is_none() {
        return state;
    }
    let mut is_full = false;
    for executor in runs {
        match executor.state() == pb::ExecutorState::Draining {
            true => {}
            false if executor.in_flight < executor.max_concurrent_executions => return state,
            false => is_full = true,
        }
    }
    match is_full {
        true => "full".to_owned(),
        false => "draining".to_owned(),
    }
}

fn tool_row(tool: &pb::Tool, state: String) -> Vec<String> {
    let definition = tool.definition.clone().unwrap_or_default();
    vec![
        definition.name.clone(),
        risk_word(&definition),
        kind_word(&definition),
        state,
        tool.owner.clone(),
    ]
}

fn tool_json(tool: &pb::Tool, state: &str) -> Value {
    let definition = tool.definition.clone().unwrap_or_default();
    serde_json::json!({
        "name": definition.name,
        "description": definition.description,
        "risk": risk_word(&definition),
        "kind": kind_word(&definition),
        "state": state,
        "owner": tool.owner,
        "generation": tool.generation,
        "instances": tool.instances,
        "in_flight": tool.in_flight,
        "parameters": String::from_utf8_lossy(&definition.parameters_json),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pb::ExecutorState::{Draining, Ready, Reconnecting};

    fn executor(state: pb::ExecutorState, in_flight: u32) -> pb::ExecutorInfo {
        pb::ExecutorInfo {
            executor_name: "box".to_owned(),
            state: state as i32,
            tools: vec!["echo".to_owned()],
            max_concurrent_executions: 2,
            in_flight,
            ..pb::ExecutorInfo::default()
        }
    }

    #[test]
    fn an_active_tool_that_nobody_takes_a_call_of_is_full_or_draining() {
        let tool = |state: pb::ToolState| pb::Tool {
            definition: Some(pb::ToolDefinition {
                name: "echo".to_owned(),
                ..pb::ToolDefinition::default()
            }),
            owner: "box".to_owned(),
            state: state as i32,
            ..pb::Tool::default()
        };
        let of_another = pb::ExecutorInfo {
            executor_name: "other".to_owned(),
            ..executor(Ready, 0)
        };
        let of_another_tool = pb::ExecutorInfo {
            tools: vec!["write".to_owned()],
            ..executor(Ready, 0)
        };
        let cases = [
            (vec![], "active"),
            (vec![executor(Ready, 1)], "active"),
            (vec![executor(Ready, 2)], "full"),
            (vec![executor(Ready, 2), executor(Ready, 1)], "active"),
            (vec![executor(Draining, 0)], "draining"),
            (vec![executor(Draining, 0), executor(Ready, 2)], "full"),
            (vec![executor(Draining, 0), executor(Ready, 0)], "active"),
            (vec![executor(Draining, 0), of_another], "draining"),
            (vec![executor(Ready, 2), of_another_tool], "full"),
            (vec![executor(Ready, 2), executor(Reconnecting, 0)], "full"),
        ];
        for (executors, expected) in cases {
            let state = state_of(&tool(pb::ToolState::Active), &executors);
            assert_eq!(state, expected, "{executors:?}");
        }
        let gone = tool(pb::ToolState::Unavailable);
        assert_eq!(state_of(&gone, &[executor(Ready, 2)]), "unavailable");
    }
}
