// What hooks are asked, and what they may say.
//
// Plain data. What several hooks mean together, the sidecar decides.

package callgate

import (
	"context"
	"encoding/json"
	"time"
)

// A HookPoint says when a hook is asked or told.
type HookPoint string

// When a hook is asked or told.
const (
	PointBeforeToolCall    HookPoint = "before_tool_call"
	PointAfterToolCall     HookPoint = "after_tool_call"
	PointAfterToolFailure  HookPoint = "after_tool_failure"
	PointApprovalRequested HookPoint = "approval_requested"
	PointTurnStarted       HookPoint = "turn_started"
	PointTurnFinished      HookPoint = "turn_finished"
	PointLoopSuspected     HookPoint = "loop_suspected"
	PointLoopDiagnose      HookPoint = "loop_diagnose"
)

// EarlierHook is what a hook said that was asked about the same call before this one. Status is
// answered or how it failed; Says what it said or counts as.
type EarlierHook struct {
	HookID   string
	Status   string
	Says     string
	Modified bool
}

// HookInput is what a hook is asked about. What does not belong to its point is empty.
type HookInput struct {
	HookID string
	Point  HookPoint
	// TimestampMs is when the sidecar asked, in Unix time.
	TimestampMs   uint64
	SessionID     string
	RootSessionID string
	RunID         string
	TurnID        string
	BatchID       string
	// Cwd is the session's working directory. Empty: none was set.
	Cwd  string
	Mode Mode
	// Attempt counts from 1; after a crash of the sidecar it may ask again.
	Attempt     uint32
	Traceparent string

	// Before and after a call. ToolName is as the model named it; ToolArgs are the arguments as hooks
	// before this one left them, after a call as it ran. They may be no JSON object.
	CallID   string
	ToolName string
	ToolArgs json.RawMessage
	// Risk, Kind and ToolDigest are empty if there is no tool of that name.
	Risk       Risk
	Kind       ToolKind
	ToolDigest []byte
	// Validation is what is wrong with the call so far. A hook may mend it.
	Validation *ErrorInfo
	// Earlier is what hooks before this one said.
	Earlier []EarlierHook

	// Result is how the call ended. After a call only.
	Result *CallResult

	// Approval is what begins to wait.
	Approval *Approval

	// Calls and Results are those of a turn; results only when it has finished, and without contents.
	Calls   []ToolCall
	Results []*CallResult

	// Run is that of a turn or a loop.
	Run Run

	// LoopDetector, LoopReason and LoopCallIDs are of a suspected loop, History of a diagnosis.
	LoopDetector string
	LoopReason   string
	LoopCallIDs  []string
	History      json.RawMessage
}

// Arguments reads the arguments into a value, as a tool would. Fails if they do not fit.
func (i *HookInput) Arguments(into any) error {
	if len(i.ToolArgs) == 0 {
		return decodeArguments([]byte("{}"), into)
	}
	return decodeArguments(i.ToolArgs, into)
}

// A BeforeAction is what a hook decides before a call.
type BeforeAction string

// What a hook decides before a call. Of several the highest counts: abort, deny, defer, ask, allow,
// proceed.
const (
	// BeforeProceed: no opinion.
	BeforeProceed BeforeAction = "proceed"
	// BeforeAllow lifts an ask that comes from mode, risk or the tool's check, and no other.
	BeforeAllow BeforeAction = "allow"
	// BeforeAsk: an approver must be asked, and sees the reason.
	BeforeAsk BeforeAction = "ask"
	// BeforeDefer waits for an approver, also where none is expected. No further hook is asked.
	BeforeDefer BeforeAction = "defer"
	// BeforeDeny: does not run.
	BeforeDeny BeforeAction = "deny"
	// BeforeAbort ends the run; nothing of the batch runs.
	BeforeAbort BeforeAction = "abort"
)

// A BeforeAnswer is a Before or a HookOutput.
type BeforeAnswer interface{ before() Before }

// Before is what a hook says before a call. An empty Says is BeforeProceed.
type Before struct {
	Says BeforeAction
	// Args, as JSON text or as a value, replace the arguments as a whole. Not with deny and abort.
	Args any
	// Context is for the conversation, at most 10 000 characters. Not with abort.
	Context string
	// Suppress: the model sees a placeholder in place of the result.
	Suppress bool
	// Reason is for people; of a denial for the model too, unless ReasonForModel is given.
	Reason         string
	ReasonForModel string
	// Result, with deny, stands in the tool's place, an error or not: anything that a handler could return.
	Result any
}

func (b Before) before() Before { return b }

// HookOutput is what a hook says before a call, as the five fields of a hook before tool use. A nil one,
// and an empty one, change nothing.
type HookOutput struct {
	// PermissionDecision is allow, deny or ask. Empty: no opinion.
	PermissionDecision string `json:"permissionDecision,omitempty"`
	// PermissionDecisionReason is, of a denial, for the user and the model, of an ask for the approver.
	PermissionDecisionReason string `json:"permissionDecisionReason,omitempty"`
	// ModifiedArgs are the whole new arguments. Nil: unchanged.
	ModifiedArgs any `json:"modifiedArgs,omitempty"`
	// AdditionalContext is for the conversation, at most 10 000 characters.
	AdditionalContext string `json:"additionalContext,omitempty"`
	// SuppressOutput: the model sees a placeholder in place of the result.
	SuppressOutput bool `json:"suppressOutput,omitempty"`
}

func (o HookOutput) before() Before {
	says := BeforeAction(o.PermissionDecision)
	switch says {
	case "", BeforeAllow, BeforeDeny, BeforeAsk:
	default:
		// Only the three are words of this form; anything else is nonsense, and so a failure of the hook.
		says = "nonsense: " + says
	}
	return Before{
		Says: says, Args: o.ModifiedArgs, Context: o.AdditionalContext, Suppress: o.SuppressOutput,
		Reason: o.PermissionDecisionReason,
	}
}

// An AfterAction is what a hook decides after a call.
type AfterAction string

// What a hook decides after a call.
const (
	// AfterProceed goes on.
	AfterProceed AfterAction = "proceed"
	// AfterStop keeps the result, and ends the loop after this turn.
	AfterStop AfterAction = "stop"
	// AfterAbort ends the run.
	AfterAbort AfterAction = "abort"
)

// Injected is a message for the conversation, behind all results of the batch. Role is user or system;
// empty is user.
type Injected struct {
	Text string
	Role string
}

// An AfterAnswer is an After or an AfterOutput.
type AfterAnswer interface{ after() After }

// After is what a hook says after a call. An empty Says is AfterProceed.
type After struct {
	Says AfterAction
	// Result takes the place of the tool's: anything that a handler could return. An error stays an
	// error. Nil: unchanged.
	Result any
	// Messages and Context are for the conversation. At most 16 messages. Not with abort.
	Messages []Injected
	Context  string
	// Suppress: the model sees a placeholder in place of the result.
	Suppress bool
	// Reason is for people, with stop and abort.
	Reason string
}

func (a After) after() After { return a }

// AfterOutput is what a hook says after a call, field by field. A nil one, and an empty one, change nothing.
type AfterOutput struct {
	// ModifiedResult takes the place of the tool's: anything that a handler could return. Nil: unchanged.
	ModifiedResult any `json:"modifiedResult,omitempty"`
	// AdditionalContext is for the conversation, at most 10 000 characters.
	AdditionalContext string `json:"additionalContext,omitempty"`
	// SuppressOutput: the model sees a placeholder in place of the result.
	SuppressOutput bool `json:"suppressOutput,omitempty"`
}

func (o AfterOutput) after() After {
	return After{Result: o.ModifiedResult, Context: o.AdditionalContext, Suppress: o.SuppressOutput}
}

// An ApprovalAction is what a hook decides about an approval that begins to wait.
type ApprovalAction string

// It waits on; it is approved, this once; it is denied.
const (
	ApprovalLeave   ApprovalAction = "leave"
	ApprovalApprove ApprovalAction = "approve"
	ApprovalDeny    ApprovalAction = "deny"
)

// ApprovalAnswer is what a hook says to an approval. An empty Says is ApprovalLeave. Message is, of a
// denial, for the model, otherwise for the record.
type ApprovalAnswer struct {
	Says    ApprovalAction
	Message string
}

// LoopAnswer is a diagnosis: whether the run goes round in circles, why, and how sure that is, 0 to 1.
type LoopAnswer struct {
	IsLoop     bool
	Reason     string
	Confidence float64
}

// HookMatcher says for which calls a hook is asked. All that are given must hold; what cannot be told
// holds.
type HookMatcher struct {
	// Tools are names or globs.
	Tools []string
	Risks []Risk
	Kinds []ToolKind
	// Rules are as in permissions, Tool(spec); one must mean the call.
	Rules []string
	// Arguments are pointers to arguments that must be there.
	Arguments []string
}

// A HookFailureMode says what a failure before a call means.
type HookFailureMode string

// The call is denied, with the code of the failure; somebody is asked; the hook is ignored.
const (
	FailureDenies  HookFailureMode = "deny"
	FailureAsks    HookFailureMode = "ask"
	FailureIgnored HookFailureMode = "ignore"
)

// The functions of hooks. An error, a panic or nonsense is a failure that the sidecar is told of. The
// context is done once the answer is no longer wanted.
type (
	// BeforeHook is asked before a call. A nil answer is BeforeProceed.
	BeforeHook func(ctx context.Context, asked *HookInput) (BeforeAnswer, error)
	// AfterHook is asked after a call. A nil answer is AfterProceed.
	AfterHook func(ctx context.Context, asked *HookInput) (AfterAnswer, error)
	// ApprovalHook is asked about an approval that begins to wait.
	ApprovalHook func(ctx context.Context, asked *HookInput) (ApprovalAnswer, error)
	// LoopHook is asked whether a run is in a loop.
	LoopHook func(ctx context.Context, asked *HookInput) (LoopAnswer, error)
	// Observer is told, and answers nothing.
	Observer func(ctx context.Context, told *HookInput)
)

// hookSpec is one hook of this process, as the sidecar is told of it.
type hookSpec struct {
	id          string
	points      []HookPoint
	order       uint32
	matcher     HookMatcher
	timeout     time.Duration
	onFailure   HookFailureMode
	withhold    bool
	observe     bool
	description string
}

// A HookOption says something more of a hook.
type HookOption func(*hookSpec)

// WithOrder: lower ones are asked first. Security hooks first.
func WithOrder(order uint32) HookOption { return func(s *hookSpec) { s.order = order } }

// ForTools is short for a matcher of names or globs.
func ForTools(tools ...string) HookOption { return func(s *hookSpec) { s.matcher.Tools = tools } }

// WithMatcher says for which calls the hook is asked. Without one: all.
func WithMatcher(matcher HookMatcher) HookOption { return func(s *hookSpec) { s.matcher = matcher } }

// WithHookTimeout is the time for an answer, from each question. Default 5 s.
func WithHookTimeout(timeout time.Duration) HookOption {
	return func(s *hookSpec) { s.timeout = timeout }
}

// OnHookFailure says what a failure before a call means. Default: it denies.
func OnHookFailure(mode HookFailureMode) HookOption { return func(s *hookSpec) { s.onFailure = mode } }

// WithholdOnFailure: after a call, a failure keeps the result back. By default the result stays.
func WithholdOnFailure() HookOption { return func(s *hookSpec) { s.withhold = true } }

// OnlyTold: what the hook answers does not count, and nobody waits for it.
func OnlyTold() HookOption { return func(s *hookSpec) { s.observe = true } }

// AfterFailures asks a hook after calls about answers that are errors too; with instead, about them alone.
func AfterFailures(instead bool) HookOption {
	return func(s *hookSpec) {
		if instead {
			s.points = nil
		}
		s.points = append(s.points, PointAfterToolFailure)
	}
}

// WithHookDescription is for people.
func WithHookDescription(text string) HookOption {
	return func(s *hookSpec) { s.description = cutText(text, 1_024) }
}
