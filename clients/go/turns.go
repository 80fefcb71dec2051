// Turns as an orchestrator sees them: what is asked, what happens, how it ends.
//
// Plain data. Knows no sockets.

package callgate

import (
	"encoding/json"
	"time"
)

// A CallState says where a call stands.
type CallState string

// Where a call stands. The last three are final.
const (
	CallValidating       CallState = "validating"
	CallAwaitingApproval CallState = "awaiting_approval"
	CallScheduled        CallState = "scheduled"
	CallExecuting        CallState = "executing"
	CallSucceeded        CallState = "success"
	CallErred            CallState = "error"
	CallCancelled        CallState = "cancelled"
)

// A TurnState says where a turn stands. Empty, in an answer: it was not seen yet.
type TurnState string

// Where a turn stands. Suspended: only people are awaited.
const (
	TurnStateRunning   TurnState = "running"
	TurnStateSuspended TurnState = "suspended"
	TurnStateCompleted TurnState = "completed"
)

// A TurnOutcome says how a turn ended.
type TurnOutcome string

// How a turn ended. Completed means that every call has its result.
const (
	TurnOutcomeCompleted    TurnOutcome = "completed"
	TurnOutcomeCancelled    TurnOutcome = "cancelled"
	TurnOutcomeAborted      TurnOutcome = "aborted"
	TurnOutcomeLoopDetected TurnOutcome = "loop_detected"
	TurnOutcomeError        TurnOutcome = "error"
)

// A ResultDelivery says where contents of results travel.
type ResultDelivery string

// Where contents of results travel. The default is at the end.
const (
	ResultsAtEnd       ResultDelivery = "at_end"
	ResultsAsCompleted ResultDelivery = "as_completed"
	ResultsBoth        ResultDelivery = "both"
)

// A ProviderFormat is a model provider's form of messages and tools.
type ProviderFormat string

// OpenAIChat is OpenAI Chat Completions.
const OpenAIChat ProviderFormat = "openai_chat"

// ToolCall is one call as the model made it.
type ToolCall struct {
	CallID string
	Name   string
	// Arguments as a string, bytes or json.RawMessage are the model's own text and sent as they are;
	// anything else is written as JSON. Nil: none.
	Arguments any
	// Truncated: the model was cut off inside this call.
	Truncated bool
}

// TurnRequest is one model message and its calls. SessionID is enough: without calls it is a round
// in which the model answered without tools.
type TurnRequest struct {
	// SessionID comes into being on first use.
	SessionID string
	// Calls in the model's order. Not together with OpenAIMessage.
	Calls []ToolCall
	// OpenAIMessage is the assistant message of OpenAI Chat Completions, as text or as a value; the
	// result then has Messages to append. FinishReason is the provider's own word, e.g. length.
	OpenAIMessage any
	FinishReason  string
	// TurnID is kept by you before you send, so that a retry in another process attaches. Empty: minted.
	TurnID string
	// RunID: empty is the session's default run.
	RunID string
	// Toolset is what the model could call. Empty: every tool.
	Toolset string
	// ToolSnapshotID is ToolList.SnapshotID of the list that the model saw.
	ToolSnapshotID string
	// MaxParallel is most calls that execute at once. Zero: the session's.
	MaxParallel uint32
	// Timeout: the turn is cancelled when it ran so long. Zero: no limit.
	Timeout time.Duration
	// ModelMessage is anything that a new process needs to go on. Kept, never read.
	ModelMessage []byte
	// Results says where contents travel. Empty: at the end.
	Results ResultDelivery
	// Output wants CallOutput, NoProgress does not want CallProgress.
	Output     bool
	NoProgress bool
	// ResultsFormat is the form of Messages with Calls. Empty: none.
	ResultsFormat ProviderFormat
	// CancelOnDisconnect: a lost connection cancels the turn. By default it goes on, and is taken up
	// again here.
	CancelOnDisconnect bool
	// BatchPolicy: empty is the session's.
	BatchPolicy BatchPolicy
	// CommandRules are rules for this turn only. At most 256.
	CommandRules []Rule
	// EndOnSuspend ends the events once only people are awaited, and Wait fails with ErrSuspended;
	// AttachTurn takes the turn up. By default the turn waits for them.
	EndOnSuspend bool
	// History is the conversation so far, for the sidecar's loop diagnosis, as JSON text or a value. Nil:
	// the run's own journal.
	History any
	// Traceparent is W3C trace context.
	Traceparent string
	// OwnRPC gives the turn an rpc of its own. By default all turns of a client share one stream, which
	// is cheaper.
	OwnRPC bool
}

// AttachRequest takes up a turn that this or another process began.
type AttachRequest struct {
	TurnID    string
	SessionID string
	// Epoch and AfterSequence are those of the last event seen. Zero: from the beginning.
	Epoch         uint32
	AfterSequence uint64
	// As in TurnRequest.
	Results      ResultDelivery
	Output       bool
	NoProgress   bool
	EndOnSuspend bool
}

// Run is one agent loop inside a session. State is active, completed, cancelled, aborted,
// loop_detected or error. EndCode is empty while active or completed, EndedAtMs 0 while active.
type Run struct {
	RunID       string
	SessionID   string
	State       string
	Rounds      uint32
	EndCode     string
	EndReason   string
	StartedAtMs uint64
	EndedAtMs   uint64
}

// A TurnEvent is one thing that happened in a turn: TurnAccepted, CallStateChanged, ApprovalRequired,
// TurnSuspended, LoopDetected, CallCompleted, CallProgress, CallOutput, TurnHeartbeat, TurnSnapshot or
// TurnCompleted.
type TurnEvent interface {
	// About is what every event has.
	About() EventInfo
}

// EventInfo is what every event has. Sequence is 0 for those that are not kept and may be thinned
// out; OccurredAtMs is Unix time.
type EventInfo struct {
	TurnID       string
	Epoch        uint32
	Sequence     uint64
	OccurredAtMs uint64
}

// About is the info itself.
func (i EventInfo) About() EventInfo { return i }

// AcceptedCall is one call as the sidecar reads it, aliases resolved.
type AcceptedCall struct {
	CallID string
	Tool   string
	Minted bool
}

// TurnAccepted: the turn is recorded and begins. Always the first.
type TurnAccepted struct {
	EventInfo
	SessionID   string
	RunID       string
	BatchID     string
	Calls       []AcceptedCall
	Round       uint32
	BatchPolicy BatchPolicy
}

// CallStateChanged: a call moved. Code is that of its error, for error and cancelled.
type CallStateChanged struct {
	EventInfo
	CallID   string
	State    CallState
	Previous CallState
	Code     string
}

// ApprovalSummary is enough of an approval to show that one waits. ExpiresAtMs 0: never.
type ApprovalSummary struct {
	ApprovalID  string
	CallID      string
	Tool        string
	Risk        Risk
	Verdict     PermissionVerdict
	ExpiresAtMs uint64
}

// ApprovalRequired: approvals wait. They are durable: whatever dies now, they can be decided.
type ApprovalRequired struct {
	EventInfo
	BatchID   string
	Approvals []ApprovalSummary
}

// TurnSuspended: every call that could run has ended; only people are awaited.
type TurnSuspended struct {
	EventInfo
	BatchID     string
	ApprovalIDs []string
}

// LoopDetected: the run is in a loop and has ended; TurnCompleted follows with a result for every
// call. Detector is tool_signature, cycle or llm. Confidence is nil where no model said so.
type LoopDetected struct {
	EventInfo
	Detector    string
	Reason      string
	CallIDs     []string
	Period      uint32
	Repetitions uint32
	Confidence  *float64
}

// CallCompleted: a call ended. In order of completion; without contents unless asked for here.
type CallCompleted struct {
	EventInfo
	Result *CallResult
}

// CallProgress: an executing call reports how far it is. Fraction nil: unknown.
type CallProgress struct {
	EventInfo
	CallID   string
	Message  string
	Fraction *float64
	Details  json.RawMessage
}

// CallOutput: an executing call prints. Data may cut a character; a gap in Chunk was dropped.
type CallOutput struct {
	EventInfo
	CallID       string
	Channel      OutputChannel
	Chunk        uint64
	Data         []byte
	DroppedBytes uint64
}

// TurnHeartbeat: nothing happened for a while.
type TurnHeartbeat struct {
	EventInfo
	WaitingFor string
}

// TurnSnapshot is the turn as it stands, in place of events that are lost or no longer kept.
type TurnSnapshot struct {
	EventInfo
	Turn *TurnInfo
}

// TurnCompleted: the turn ended. Always the last.
type TurnCompleted struct {
	EventInfo
	Result *TurnResult
}

// HookText is what a hook adds to the conversation. Role is set for a message, empty for a context.
type HookText struct {
	Text   string
	HookID string
	CallID string
	Role   string
}

// TurnResult is how a turn ended.
type TurnResult struct {
	TurnID  string
	Outcome TurnOutcome
	// Results are one per call, in call order. Empty if the turn was cancelled.
	Results []*CallResult
	// Messages is what to append to the history, in the provider's form. Empty: no form was asked for,
	// or the turn was cancelled.
	Messages []json.RawMessage
	// Stop: the loop must end; do not ask the model again in this run. StopReason is tool, hook or
	// run_ended.
	Stop       bool
	StopReason string
	Run        Run
	Error      *ErrorInfo
	// ClosingResults and ClosingMessages only keep a history valid after a turn that was cancelled or
	// aborted. Never go on with them.
	ClosingResults  []*CallResult
	ClosingMessages []json.RawMessage
	// HookContexts and HookMessages are to be appended behind all results, in order.
	HookContexts []HookText
	HookMessages []HookText
}

// Call is the result of one call, a cancelled turn's included. Nil: there is none.
func (r *TurnResult) Call(callID string) *CallResult {
	for _, results := range [][]*CallResult{r.Results, r.ClosingResults} {
		for _, result := range results {
			if result.CallID == callID {
				return result
			}
		}
	}
	return nil
}

// TurnCallInfo is a call as it stands. ApprovalID is the approval that it waits for or had,
// EffectiveArguments what hooks or an approver put in place of its arguments; both may be empty.
type TurnCallInfo struct {
	CallID             string
	Name               string
	Arguments          json.RawMessage
	Tool               string
	State              CallState
	ApprovalID         string
	EffectiveArguments json.RawMessage
}

// TurnInfo is a turn as it stands. Completed is nil while it runs.
type TurnInfo struct {
	TurnID       string
	SessionID    string
	RunID        string
	BatchID      string
	State        TurnState
	Calls        []TurnCallInfo
	Epoch        uint32
	LastSequence uint64
	ModelMessage []byte
	Completed    *TurnResult
	AcceptedAtMs uint64
	UpdatedAtMs  uint64
}
