from . import hook_service_pb2 as _hook_service_pb2
from . import permission_pb2 as _permission_pb2
from . import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetPolicyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPolicyResponse(_message.Message):
    __slots__ = ("policy_revision", "sources", "max_mode", "aliases")
    POLICY_REVISION_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    MAX_MODE_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    policy_revision: int
    sources: _containers.RepeatedCompositeFieldContainer[PolicySource]
    max_mode: _permission_pb2.Mode
    aliases: _containers.RepeatedCompositeFieldContainer[ToolNameAlias]
    def __init__(self, policy_revision: _Optional[int] = ..., sources: _Optional[_Iterable[_Union[PolicySource, _Mapping]]] = ..., max_mode: _Optional[_Union[_permission_pb2.Mode, str]] = ..., aliases: _Optional[_Iterable[_Union[ToolNameAlias, _Mapping]]] = ...) -> None: ...

class ToolNameAlias(_message.Message):
    __slots__ = ("name", "tool")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    name: str
    tool: str
    def __init__(self, name: _Optional[str] = ..., tool: _Optional[str] = ...) -> None: ...

class PolicySource(_message.Message):
    __slots__ = ("source", "origin", "rule_count", "problems", "stale", "trusted", "loaded_at_ms")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    RULE_COUNT_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    TRUSTED_FIELD_NUMBER: _ClassVar[int]
    LOADED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    source: _types_pb2.RuleSource
    origin: str
    rule_count: int
    problems: _containers.RepeatedCompositeFieldContainer[_permission_pb2.RuleProblem]
    stale: bool
    trusted: bool
    loaded_at_ms: int
    def __init__(self, source: _Optional[_Union[_types_pb2.RuleSource, str]] = ..., origin: _Optional[str] = ..., rule_count: _Optional[int] = ..., problems: _Optional[_Iterable[_Union[_permission_pb2.RuleProblem, _Mapping]]] = ..., stale: bool = ..., trusted: bool = ..., loaded_at_ms: _Optional[int] = ...) -> None: ...

class ListRulesRequest(_message.Message):
    __slots__ = ("sources", "session_id", "effect", "state", "page_size", "page_token")
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sources: _containers.RepeatedScalarFieldContainer[_types_pb2.RuleSource]
    session_id: str
    effect: _types_pb2.PermissionEffect
    state: _permission_pb2.RuleState
    page_size: int
    page_token: str
    def __init__(self, sources: _Optional[_Iterable[_Union[_types_pb2.RuleSource, str]]] = ..., session_id: _Optional[str] = ..., effect: _Optional[_Union[_types_pb2.PermissionEffect, str]] = ..., state: _Optional[_Union[_permission_pb2.RuleState, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListRulesResponse(_message.Message):
    __slots__ = ("rules", "next_page_token")
    RULES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[_permission_pb2.Rule]
    next_page_token: str
    def __init__(self, rules: _Optional[_Iterable[_Union[_permission_pb2.Rule, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class CheckRulesRequest(_message.Message):
    __slots__ = ("rules_json", "rules", "source")
    RULES_JSON_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    rules_json: bytes
    rules: _containers.RepeatedCompositeFieldContainer[_permission_pb2.RuleSpec]
    source: _types_pb2.RuleSource
    def __init__(self, rules_json: _Optional[bytes] = ..., rules: _Optional[_Iterable[_Union[_permission_pb2.RuleSpec, _Mapping]]] = ..., source: _Optional[_Union[_types_pb2.RuleSource, str]] = ...) -> None: ...

class CheckRulesResponse(_message.Message):
    __slots__ = ("ok", "problems", "rule_count")
    OK_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    RULE_COUNT_FIELD_NUMBER: _ClassVar[int]
    ok: bool
    problems: _containers.RepeatedCompositeFieldContainer[_permission_pb2.RuleProblem]
    rule_count: int
    def __init__(self, ok: bool = ..., problems: _Optional[_Iterable[_Union[_permission_pb2.RuleProblem, _Mapping]]] = ..., rule_count: _Optional[int] = ...) -> None: ...

class ExplainDecisionRequest(_message.Message):
    __slots__ = ("text", "call", "session_id", "mode", "extra_rules", "definition")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    EXTRA_RULES_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    text: str
    call: _types_pb2.ToolCall
    session_id: str
    mode: _permission_pb2.Mode
    extra_rules: _containers.RepeatedCompositeFieldContainer[_permission_pb2.RuleSpec]
    definition: _types_pb2.ToolDefinition
    def __init__(self, text: _Optional[str] = ..., call: _Optional[_Union[_types_pb2.ToolCall, _Mapping]] = ..., session_id: _Optional[str] = ..., mode: _Optional[_Union[_permission_pb2.Mode, str]] = ..., extra_rules: _Optional[_Iterable[_Union[_permission_pb2.RuleSpec, _Mapping]]] = ..., definition: _Optional[_Union[_types_pb2.ToolDefinition, _Mapping]] = ...) -> None: ...

class ExplainDecisionResponse(_message.Message):
    __slots__ = ("verdict", "steps", "segments", "grant_candidates", "error", "hooks", "hooks_not_asked")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    GRANT_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    HOOKS_NOT_ASKED_FIELD_NUMBER: _ClassVar[int]
    verdict: _types_pb2.PermissionVerdict
    steps: _containers.RepeatedCompositeFieldContainer[DecisionStep]
    segments: _containers.RepeatedCompositeFieldContainer[CommandSegment]
    grant_candidates: _containers.RepeatedCompositeFieldContainer[_permission_pb2.GrantCandidate]
    error: _types_pb2.ToolError
    hooks: _containers.RepeatedCompositeFieldContainer[ExplainedHook]
    hooks_not_asked: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, verdict: _Optional[_Union[_types_pb2.PermissionVerdict, _Mapping]] = ..., steps: _Optional[_Iterable[_Union[DecisionStep, _Mapping]]] = ..., segments: _Optional[_Iterable[_Union[CommandSegment, _Mapping]]] = ..., grant_candidates: _Optional[_Iterable[_Union[_permission_pb2.GrantCandidate, _Mapping]]] = ..., error: _Optional[_Union[_types_pb2.ToolError, _Mapping]] = ..., hooks: _Optional[_Iterable[_Union[ExplainedHook, _Mapping]]] = ..., hooks_not_asked: _Optional[_Iterable[str]] = ...) -> None: ...

class ExplainedHook(_message.Message):
    __slots__ = ("hook_id", "action", "reason_for_user", "modified_args_json", "additional_context", "suppress_output")
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FOR_USER_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SUPPRESS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    hook_id: str
    action: _hook_service_pb2.BeforeAction
    reason_for_user: str
    modified_args_json: bytes
    additional_context: str
    suppress_output: bool
    def __init__(self, hook_id: _Optional[str] = ..., action: _Optional[_Union[_hook_service_pb2.BeforeAction, str]] = ..., reason_for_user: _Optional[str] = ..., modified_args_json: _Optional[bytes] = ..., additional_context: _Optional[str] = ..., suppress_output: bool = ...) -> None: ...

class DecisionStep(_message.Message):
    __slots__ = ("stage", "effect", "rule", "source", "origin", "note")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    stage: _types_pb2.DecisionStage
    effect: _types_pb2.PermissionEffect
    rule: str
    source: _types_pb2.RuleSource
    origin: str
    note: str
    def __init__(self, stage: _Optional[_Union[_types_pb2.DecisionStage, str]] = ..., effect: _Optional[_Union[_types_pb2.PermissionEffect, str]] = ..., rule: _Optional[str] = ..., source: _Optional[_Union[_types_pb2.RuleSource, str]] = ..., origin: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class CommandSegment(_message.Message):
    __slots__ = ("text", "words", "wrappers", "opaque_reason", "effect")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    WORDS_FIELD_NUMBER: _ClassVar[int]
    WRAPPERS_FIELD_NUMBER: _ClassVar[int]
    OPAQUE_REASON_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    text: str
    words: _containers.RepeatedScalarFieldContainer[str]
    wrappers: _containers.RepeatedScalarFieldContainer[str]
    opaque_reason: str
    effect: _types_pb2.PermissionEffect
    def __init__(self, text: _Optional[str] = ..., words: _Optional[_Iterable[str]] = ..., wrappers: _Optional[_Iterable[str]] = ..., opaque_reason: _Optional[str] = ..., effect: _Optional[_Union[_types_pb2.PermissionEffect, str]] = ...) -> None: ...

class SetWorkspaceTrustRequest(_message.Message):
    __slots__ = ("workspace", "trusted")
    WORKSPACE_FIELD_NUMBER: _ClassVar[int]
    TRUSTED_FIELD_NUMBER: _ClassVar[int]
    workspace: str
    trusted: bool
    def __init__(self, workspace: _Optional[str] = ..., trusted: bool = ...) -> None: ...

class SetWorkspaceTrustResponse(_message.Message):
    __slots__ = ("policy_revision",)
    POLICY_REVISION_FIELD_NUMBER: _ClassVar[int]
    policy_revision: int
    def __init__(self, policy_revision: _Optional[int] = ...) -> None: ...

class ReloadPolicyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReloadPolicyResponse(_message.Message):
    __slots__ = ("policy_revision", "problems")
    POLICY_REVISION_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    policy_revision: int
    problems: _containers.RepeatedCompositeFieldContainer[_permission_pb2.RuleProblem]
    def __init__(self, policy_revision: _Optional[int] = ..., problems: _Optional[_Iterable[_Union[_permission_pb2.RuleProblem, _Mapping]]] = ...) -> None: ...
