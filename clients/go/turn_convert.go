// Messages about turns to the types of this package and back. Decides nothing.

package callgate

import (
	"encoding/json"
	"fmt"

	"callgate.invalid/clients/go/internal/pb"
)

// textOrJSON is text as it is, and anything else as JSON. Text is not checked: the sidecar does that.
func textOrJSON(value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []byte(value), nil
	case []byte:
		return value, nil
	case json.RawMessage:
		return value, nil
	}
	return encodeJSON(value)
}

func invalid(format string, arguments ...any) *Error {
	return newError(ErrInvalidRequest, fmt.Sprintf(format, arguments...))
}

// runRequest is the request of a turn; its id is there by now.
func runRequest(asked TurnRequest) (*pb.RunTurnRequest, error) {
	if len(asked.Calls) > 0 && asked.OpenAIMessage != nil {
		return nil, invalid("give Calls or OpenAIMessage, not both")
	}
	made := &pb.RunTurnRequest{
		SessionId:      asked.SessionID,
		TurnId:         asked.TurnID,
		RunId:          asked.RunID,
		Toolset:        asked.Toolset,
		ToolSnapshotId: asked.ToolSnapshotID,
		View:           viewOf(asked.Results, asked.Output, asked.NoProgress, asked.ResultsFormat),
		ModelMessage:   asked.ModelMessage,
		OnSuspend:      onSuspendOf(asked.EndOnSuspend),
		BatchPolicy:    enumNumber(pb.BatchPolicy(0), asked.BatchPolicy),
	}
	if asked.BatchPolicy != "" && made.BatchPolicy == 0 {
		return nil, invalid("there is no batch policy %q", asked.BatchPolicy)
	}
	for _, call := range asked.Calls {
		arguments, err := textOrJSON(call.Arguments)
		if err != nil {
			return nil, invalid("the arguments of call %q are no JSON: %v", call.CallID, err)
		}
		made.Calls = append(made.Calls, &pb.ToolCall{
			CallId: call.CallID, Name: validText(call.Name), ArgumentsJson: arguments, Truncated: call.Truncated,
		})
	}
	if asked.OpenAIMessage != nil {
		message, err := textOrJSON(asked.OpenAIMessage)
		if err != nil {
			return nil, invalid("the message is no JSON: %v", err)
		}
		made.ProviderMessage = &pb.ProviderMessage{
			Format:       pb.ProviderFormat_PROVIDER_FORMAT_OPENAI_CHAT,
			MessageJson:  message,
			FinishReason: asked.FinishReason,
		}
	}
	if asked.CancelOnDisconnect {
		made.OnDisconnect = pb.OnDisconnect_ON_DISCONNECT_CANCEL
	}
	if asked.MaxParallel > 0 {
		made.MaxParallel = &asked.MaxParallel
	}
	if asked.Timeout > 0 {
		span := milliseconds(asked.Timeout)
		made.TimeoutMs = &span
	}
	for _, rule := range asked.CommandRules {
		made.CommandRules = append(made.CommandRules, ruleMessage(rule))
	}
	if asked.Traceparent != "" {
		made.Trace = &pb.TraceContext{Traceparent: asked.Traceparent}
	}
	history, err := textOrJSON(asked.History)
	if err != nil {
		return nil, invalid("the history is no JSON: %v", err)
	}
	made.HistoryJson = history
	return made, nil
}

func viewOf(results ResultDelivery, output, noProgress bool, format ProviderFormat) *pb.TurnView {
	return &pb.TurnView{
		ResultDelivery:  enumNumber(pb.ResultDelivery(0), results),
		IncludeOutput:   output,
		ExcludeProgress: noProgress,
		MaxMessageBytes: messageBytesMax,
		ResultsFormat:   enumNumber(pb.ProviderFormat(0), format),
	}
}

func onSuspendOf(end bool) pb.OnSuspend {
	if end {
		return pb.OnSuspend_ON_SUSPEND_END
	}
	return pb.OnSuspend_ON_SUSPEND_UNSPECIFIED
}

// callStateOf is where a call stands. Unknown: executing.
func callStateOf(number pb.CallState) CallState {
	return CallState(enumName(number, string(CallExecuting)))
}

// turnStateOf is where a turn stands. Unknown: running.
func turnStateOf(number pb.TurnState) TurnState {
	return TurnState(enumName(number, string(TurnStateRunning)))
}

// riskOf is how much harm a tool can do. Unknown: dangerous.
func riskOf(number pb.RiskLevel) Risk {
	return Risk(textOr(enumName(number, string(Dangerous)), string(Safe)))
}

// kindOf is what a tool does. Unknown: other.
func kindOf(number pb.ToolKind) ToolKind {
	return ToolKind(textOr(enumName(number, string(KindOther)), string(KindOther)))
}

// eventOf is one event; nil for one that is newer than this package.
func eventOf(turnID string, epoch uint32, message *pb.TurnEvent) TurnEvent {
	info := EventInfo{turnID, epoch, message.GetSequence(), message.GetOccurredAtMs()}
	switch body := message.GetBody().(type) {
	case *pb.TurnEvent_CallStateChanged:
		moved := body.CallStateChanged
		return CallStateChanged{
			info, moved.GetCallId(), callStateOf(moved.GetState()), callStateOf(moved.GetPreviousState()), moved.GetCode(),
		}
	case *pb.TurnEvent_CallCompleted:
		return CallCompleted{info, callResultOf(body.CallCompleted.GetResult())}
	case *pb.TurnEvent_TurnAccepted:
		return acceptedOf(info, body.TurnAccepted)
	case *pb.TurnEvent_TurnCompleted:
		return TurnCompleted{info, turnResultOf(turnID, body.TurnCompleted)}
	case *pb.TurnEvent_ApprovalRequired:
		made := ApprovalRequired{EventInfo: info, BatchID: body.ApprovalRequired.GetBatchId()}
		for _, item := range body.ApprovalRequired.GetApprovals() {
			made.Approvals = append(made.Approvals, ApprovalSummary{
				item.GetApprovalId(), item.GetCallId(), item.GetTool(), riskOf(item.GetRiskLevel()),
				verdictOf(item.GetVerdict()), item.GetExpiresAtMs(),
			})
		}
		return made
	case *pb.TurnEvent_TurnSuspended:
		return TurnSuspended{info, body.TurnSuspended.GetBatchId(), body.TurnSuspended.GetApprovalIds()}
	case *pb.TurnEvent_LoopDetected:
		hit := body.LoopDetected
		return LoopDetected{
			info, enumName(hit.GetDetector(), "unknown"), hit.GetReason(), hit.GetCallIds(),
			hit.GetPeriod(), hit.GetRepetitions(), hit.Confidence,
		}
	case *pb.TurnEvent_CallProgress:
		report := body.CallProgress
		return CallProgress{info, report.GetCallId(), report.GetMessage(), report.Fraction, document(report.GetDetailsJson())}
	case *pb.TurnEvent_CallOutput:
		printed := body.CallOutput
		return CallOutput{
			info, printed.GetCallId(), OutputChannel(textOr(enumName(printed.GetChannel(), "data"), "text")),
			printed.GetChunkSequence(), printed.GetData(), printed.GetDroppedBytes(),
		}
	case *pb.TurnEvent_Heartbeat:
		return TurnHeartbeat{info, body.Heartbeat.GetWaitingFor()}
	}
	return nil
}

func acceptedOf(info EventInfo, message *pb.TurnAccepted) TurnAccepted {
	made := TurnAccepted{
		EventInfo: info, SessionID: message.GetSessionId(), RunID: message.GetRunId(), BatchID: message.GetBatchId(),
		Round: message.GetRound(), BatchPolicy: batchPolicyOf(message.GetBatchPolicy()),
	}
	for _, call := range message.GetCalls() {
		made.Calls = append(made.Calls, AcceptedCall{call.GetCallId(), call.GetTool(), call.GetMinted()})
	}
	return made
}

func turnResultOf(turnID string, message *pb.TurnCompleted) *TurnResult {
	closing := message.GetClosingResults()
	made := &TurnResult{
		TurnID:          turnID,
		Outcome:         TurnOutcome(textOr(enumName(message.GetOutcome(), ""), string(TurnOutcomeError))),
		Results:         callResultsOf(message.GetResults()),
		Messages:        messagesOf(message.GetProviderMessages()),
		Stop:            message.GetStop(),
		StopReason:      enumName(message.GetStopReason(), "run_ended"),
		Run:             runOf(message.GetRun()),
		Error:           errorInfoOf(message.GetError()),
		ClosingResults:  callResultsOf(closing.GetResults()),
		ClosingMessages: messagesOf(closing.GetProviderMessages()),
	}
	for _, item := range message.GetAdditionalContexts() {
		made.HookContexts = append(made.HookContexts, HookText{item.GetText(), item.GetHookId(), item.GetCallId(), ""})
	}
	for _, item := range message.GetInjectedMessages() {
		role := textOr(enumName(item.GetRole(), "user"), "user")
		made.HookMessages = append(made.HookMessages, HookText{item.GetText(), item.GetHookId(), item.GetCallId(), role})
	}
	return made
}

func messagesOf(message *pb.ProviderMessages) []json.RawMessage {
	var made []json.RawMessage
	for _, text := range message.GetMessagesJson() {
		made = append(made, json.RawMessage(text))
	}
	return made
}

// runOf is a run. An unknown state is a final one.
func runOf(message *pb.Run) Run {
	return Run{
		message.GetRunId(), message.GetSessionId(), enumName(message.GetState(), "error"), message.GetRounds(),
		message.GetEndCode(), message.GetEndReason(), message.GetStartedAtMs(), message.GetEndedAtMs(),
	}
}

func turnInfoOf(message *pb.Turn) *TurnInfo {
	made := &TurnInfo{
		TurnID:       message.GetTurnId(),
		SessionID:    message.GetSessionId(),
		RunID:        message.GetRunId(),
		BatchID:      message.GetBatchId(),
		State:        turnStateOf(message.GetState()),
		Epoch:        message.GetEpoch(),
		LastSequence: message.GetLastSequence(),
		ModelMessage: message.GetModelMessage(),
		AcceptedAtMs: message.GetAcceptedAtMs(),
		UpdatedAtMs:  message.GetUpdatedAtMs(),
	}
	for _, item := range message.GetCalls() {
		call := item.GetCall()
		made.Calls = append(made.Calls, TurnCallInfo{
			CallID: call.GetCallId(), Name: call.GetName(), Arguments: document(call.GetArgumentsJson()),
			Tool: item.GetTool(), State: callStateOf(item.GetState()), ApprovalID: item.GetApprovalId(),
			EffectiveArguments: document(item.GetEffectiveArgumentsJson()),
		})
	}
	if completed := message.GetCompleted(); completed != nil {
		made.Completed = turnResultOf(message.GetTurnId(), completed)
	}
	return made
}
