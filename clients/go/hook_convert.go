// Messages of hooks to the types of this package and back. Decides nothing.

package callgate

import (
	"fmt"

	"callgate.invalid/clients/go/internal/pb"
)

const injectedMax = 16

func hookFailureMode(mode HookFailureMode) pb.HookFailureMode {
	return enumNumber(pb.HookFailureMode(0), mode)
}

// message is one hook as the sidecar is told of it.
func (s *hookSpec) message() *pb.HookRegistration {
	timeout := milliseconds(s.timeout)
	matcher := &pb.HookMatcher{
		Tools: s.matcher.Tools, Rules: s.matcher.Rules, ArgumentPointers: s.matcher.Arguments,
	}
	for _, risk := range s.matcher.Risks {
		matcher.RiskLevels = append(matcher.RiskLevels, enumNumber(pb.RiskLevel(0), risk))
	}
	for _, kind := range s.matcher.Kinds {
		matcher.Kinds = append(matcher.Kinds, enumNumber(pb.ToolKind(0), kind))
	}
	made := &pb.HookRegistration{
		HookId: s.id, Order: s.order, Matcher: matcher, TimeoutMs: &timeout, OnFailure: hookFailureMode(s.onFailure),
		Observe: s.observe, WithholdOnFailure: s.withhold, Description: s.description,
	}
	for _, point := range s.points {
		made.Points = append(made.Points, enumNumber(pb.HookPoint(0), point))
	}
	return made
}

// hookInputOf is what a hook is asked.
func hookInputOf(message *pb.HookInvocation) *HookInput {
	made := &HookInput{
		HookID:        message.GetHookId(),
		Point:         HookPoint(enumName(message.GetPoint(), "unknown")),
		TimestampMs:   message.GetInvokedAtMs(),
		SessionID:     message.GetSessionId(),
		RootSessionID: message.GetRootSessionId(),
		RunID:         message.GetRunId(),
		TurnID:        message.GetTurnId(),
		BatchID:       message.GetBatchId(),
		Cwd:           message.GetCwd(),
		Mode:          modeOf(message.GetMode()),
		Attempt:       message.GetAttempt(),
		Traceparent:   message.GetTrace().GetTraceparent(),
	}
	switch payload := message.GetPayload().(type) {
	case *pb.HookInvocation_Before:
		before := payload.Before
		made.takeCall(before.GetCall(), before.GetArgumentsJson(), before.GetTool())
		made.Validation = errorInfoOf(before.GetValidation())
		for _, item := range before.GetEarlier() {
			made.Earlier = append(made.Earlier, EarlierHook{
				item.GetHookId(), enumName(item.GetStatus(), "failed"), enumName(item.GetAction(), "proceed"), item.GetModified(),
			})
		}
	case *pb.HookInvocation_After:
		after := payload.After
		made.takeCall(after.GetCall(), after.GetArgumentsJson(), after.GetTool())
		made.Result = callResultOf(after.GetResult())
	case *pb.HookInvocation_Approval:
		made.Approval = approvalOf(payload.Approval.GetApproval())
	case *pb.HookInvocation_Turn:
		for _, call := range payload.Turn.GetCalls() {
			made.Calls = append(made.Calls, ToolCall{
				call.GetCallId(), call.GetName(), document(call.GetArgumentsJson()), call.GetTruncated(),
			})
		}
		made.Results = callResultsOf(payload.Turn.GetResults())
		made.Run = runOf(payload.Turn.GetRun())
	case *pb.HookInvocation_LoopSuspected:
		hit := payload.LoopSuspected
		made.LoopDetector, made.LoopReason = enumName(hit.GetDetector(), "unknown"), hit.GetReason()
		made.LoopCallIDs, made.Run = hit.GetCallIds(), runOf(hit.GetRun())
	case *pb.HookInvocation_Diagnosis:
		made.History, made.Run = document(payload.Diagnosis.GetHistoryJson()), runOf(payload.Diagnosis.GetRun())
	}
	return made
}

func (i *HookInput) takeCall(call *pb.ToolCall, arguments []byte, tool *pb.HookTool) {
	i.CallID, i.ToolName, i.ToolArgs = call.GetCallId(), call.GetName(), document(arguments)
	if tool != nil {
		i.Risk, i.Kind, i.ToolDigest = riskOf(tool.GetRiskLevel()), kindOf(tool.GetKind()), tool.GetToolDigest()
	}
}

// verdictMessage is what a hook says. What does not fit is a failure of the hook.
func verdictMessage(id string, asked *HookInput, said any) (*pb.HookVerdict, error) {
	made := &pb.HookVerdict{InvocationId: id}
	switch said := said.(type) {
	case Before:
		before, err := beforeMessage(said)
		if err != nil {
			return nil, err
		}
		made.Verdict = &pb.HookVerdict_Before{Before: before}
	case After:
		after, err := afterMessage(said)
		if err != nil {
			return nil, err
		}
		made.Verdict = &pb.HookVerdict_After{After: after}
	case ApprovalAnswer:
		action := enumNumber(pb.ApprovalAction(0), ApprovalAction(textOr(string(said.Says), string(ApprovalLeave))))
		if action == 0 {
			return nil, fmt.Errorf("there is no answer %q to an approval", said.Says)
		}
		made.Verdict = &pb.HookVerdict_Approval{Approval: &pb.ApprovalVerdict{
			Action: action, Message: validText(said.Message), ApprovalDigest: asked.Approval.Digest,
		}}
	case LoopAnswer:
		made.Verdict = &pb.HookVerdict_LoopVerdict{LoopVerdict: &pb.LoopVerdict{
			IsLoop: said.IsLoop, Reason: cutText(said.Reason, 1_024), Confidence: said.Confidence,
		}}
	}
	return made, nil
}

func beforeMessage(said Before) (*pb.BeforeVerdict, error) {
	action := enumNumber(pb.BeforeAction(0), BeforeAction(textOr(string(said.Says), string(BeforeProceed))))
	if action == 0 {
		return nil, fmt.Errorf("there is no answer %q before a call", said.Says)
	}
	arguments, err := textOrJSON(said.Args)
	if err != nil {
		return nil, fmt.Errorf("the new arguments are no JSON: %w", err)
	}
	result, err := hookResult(said.Result)
	if err != nil {
		return nil, err
	}
	return &pb.BeforeVerdict{
		Action: action, ModifiedArgsJson: arguments, AdditionalContext: validText(said.Context),
		SuppressOutput: said.Suppress, ReasonForUser: validText(said.Reason),
		ReasonForModel: validText(said.ReasonForModel), SyntheticResult: result,
	}, nil
}

func afterMessage(said After) (*pb.AfterVerdict, error) {
	action := enumNumber(pb.AfterAction(0), AfterAction(textOr(string(said.Says), string(AfterProceed))))
	if action == 0 {
		return nil, fmt.Errorf("there is no answer %q after a call", said.Says)
	}
	if len(said.Messages) > injectedMax {
		return nil, fmt.Errorf("%d messages, at most %d are allowed", len(said.Messages), injectedMax)
	}
	result, err := hookResult(said.Result)
	if err != nil {
		return nil, err
	}
	made := &pb.AfterVerdict{
		Action: action, ModifiedResult: result, AdditionalContext: validText(said.Context),
		SuppressOutput: said.Suppress, ReasonForUser: validText(said.Reason),
	}
	for _, item := range said.Messages {
		role := enumNumber(pb.MessageRole(0), textOr(item.Role, "user"))
		if role == 0 {
			return nil, fmt.Errorf("there is no role %q", item.Role)
		}
		made.InjectedMessages = append(made.InjectedMessages, &pb.InjectedMessage{Role: role, Text: validText(item.Text)})
	}
	return made, nil
}

// hookResult is a result in the tool's place; it must not become an error by accident.
func hookResult(value any) (*pb.ToolResult, error) {
	if value == nil {
		return nil, nil
	}
	answer := seal(resultOf(value))
	if answer.message.GetIsError() && !isFailure(value) {
		return nil, fmt.Errorf("the result cannot be sent: %s", answer.message.GetError().GetMessageForModel())
	}
	return answer.message, nil
}
