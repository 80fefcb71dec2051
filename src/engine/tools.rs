//! What servers ask of the registry: lists for models, and that its changes are kept.
//!
//! Never changes the registry: that is the directory's.

use bytes::Bytes;

use super::verbs::answer;
use super::{Engine, EngineError};
use crate::gate::ids::ToolName;
use crate::gate::json::Document;
use crate::gate::mask::masked;
use crate::gate::provider::{Export, ProviderFormat};
use crate::gate::snapshot::ToolSnapshot;
use crate::gate::tool::SharedTool;

impl Engine {
    /// Returns once every change of the registry so far is durable.
    ///
    /// # Errors
    /// [`EngineError::Store`]: the changes hold here and are tried again, but a crash may lose them.
    pub async fn keep_registry(&self) -> Result<(), EngineError> {
        answer(self.store.commit(&[])).await
    }

    /// Tools that can be called now, by name, seen through a toolset.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]: no such toolset.
    pub fn list_tools(&self, toolset: Option<&str>) -> Result<Vec<SharedTool>, EngineError> {
        let registry = self.directory.registry();
        if let Some(name) = toolset
            && registry.toolsets.get(name).is_none()
        {
            return Err(EngineError::NotFound {
                kind: "toolset",
                id: name.to_owned(),
            });
        }
        // A tool of which no call can run is not shown to the model.
        let permissions = self.permissions();
        let visible = registry.visible(toolset).into_iter();
        Ok(visible
            .filter(|tool| self.pool.reachable(tool))
            .filter(|tool| self.shows(&permissions, tool))
            .cloned()
            .collect())
    }

    /// Arguments of a call without what nobody may see.
    ///
    /// All is hidden where nobody can say which of it is secret: the tool is gone, or calls some of its
    /// arguments secret and these do not fit it. `tool`: empty for a call that met none, of which all is
    /// hidden as long as any tool has secrets.
    pub fn shown_arguments(&self, tool: &str, arguments: &Bytes) -> Bytes {
        let registry = self.directory.registry();
        let found = ToolName::parse(tool).ok();
        let found = found.and_then(|name| registry.get(&name).cloned());
        let everything = [String::new()];
        let hidden = match &found {
            None if tool.is_empty() && !registry.names_secrets() => &[],
            None => &everything[..],
            Some(tool) => {
                let secrets = tool.definition.secret_pointers.as_slice();
                match secrets.is_empty() || self.fits(tool, arguments) {
                    true => secrets,
                    false => &everything,
                }
            }
        };
        masked(arguments, hidden)
    }

    fn fits(&self, tool: &SharedTool, arguments: &Bytes) -> bool {
        let read = Document::parse_object(arguments, &self.json_limits);
        read.is_ok_and(|arguments| tool.schema.check(&arguments).is_ok())
    }

    /// Keeps the list that a model is about to see, and names it.
    pub fn snapshot_tools(
        &self,
        tools: &[SharedTool],
        format: Option<ProviderFormat>,
    ) -> (String, Option<Export>) {
        let export = format.map(|format| format.export_tools(tools));
        let own_names = || tools.iter().map(|tool| tool.definition.name.clone());
        let names: Vec<ToolName> = match &export {
            Some(export) => export.names.clone(),
            None => own_names().collect(),
        };
        let snapshot = ToolSnapshot::new(names.into_iter().zip(tools.iter().cloned()));
        let kept = self.snapshots.keep(snapshot, self.clock.now_ms());
        (kept.id.clone(), export)
    }
}
