// What calls end with, and errors as the sidecar sends them.

package fake

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"callgate.invalid/clients/go/internal/pb"
)

func newResult(call *TurnCall, outcome pb.CallOutcome) *pb.CallResult {
	made := &pb.CallResult{
		CallId: call.Call.GetCallId(), Tool: call.Call.GetName(), Outcome: outcome,
		Effect: pb.CallEffect_CALL_EFFECT_NOT_EXECUTED, Timing: &pb.CallTiming{FinishedAtMs: nowMs()},
	}
	if call.Execution != nil {
		made.Attempts = call.Execution.Request.GetExecution().GetAttempt()
	}
	if call.Approval != nil {
		made.ApprovalId = call.Approval.Message.GetApprovalId()
	}
	return made
}

func failedResult(call *TurnCall, code, message string) *pb.CallResult {
	made := newResult(call, pb.CallOutcome_CALL_OUTCOME_ERROR)
	made.IsError = true
	made.Error = &pb.ToolError{Code: code, MessageForModel: message}
	made.Contents = []*pb.ContentPart{{Content: &pb.ContentPart_Text{Text: message}}}
	return made
}

func cancelledResult(call *TurnCall) *pb.CallResult {
	made := failedResult(call, "tool_cancelled", "cancelled")
	made.Outcome = pb.CallOutcome_CALL_OUTCOME_CANCELLED
	return made
}

func takeResult(made *pb.CallResult, result *pb.ToolResult) *pb.CallResult {
	made.IsError, made.StopFlag, made.Error = result.GetIsError(), result.GetStopFlag(), result.GetError()
	made.Contents, made.StructuredJson = result.GetContents(), result.GetStructuredJson()
	made.MetadataJson, made.Sanitised = result.GetMetadataJson(), result.GetSanitised()
	if made.IsError {
		made.Outcome = pb.CallOutcome_CALL_OUTCOME_ERROR
	}
	return made
}

// executedResult is what the executor's answer makes of a call.
func executedResult(call *TurnCall) *pb.CallResult {
	x := call.Execution
	switch {
	case x.Rejected != nil:
		return failedResult(call, "tool_unavailable", x.Rejected.GetReason().String())
	case x.Abandoned:
		return failedResult(call, "tool_unavailable", "given back")
	}
	answer := x.Results[0]
	if cancelled := answer.GetCancelled(); cancelled != nil {
		made := cancelledResult(call)
		made.Effect = cancelled.GetEffect()
		made.Error.Detail = cancelled.GetMessage()
		return made
	}
	made := takeResult(newResult(call, pb.CallOutcome_CALL_OUTCOME_SUCCESS), answer.GetResult())
	made.Effect = pb.CallEffect_CALL_EFFECT_EXECUTED
	return made
}

// decidedResult is how a decision ends a call; nil: it runs.
func decidedResult(turn *TurnRecord, call *TurnCall, decided *pb.Decision, response *pb.ToolResult) *pb.CallResult {
	switch decided.GetChoice() {
	case pb.ApprovalChoice_APPROVAL_CHOICE_DENY:
		made := failedResult(call, "tool_denied_by_user", decided.GetMessage())
		made.NotExecutedReason = pb.NotExecutedReason_NOT_EXECUTED_REASON_DENIED_BY_USER
		return made
	case pb.ApprovalChoice_APPROVAL_CHOICE_RESPOND:
		made := takeResult(newResult(call, pb.CallOutcome_CALL_OUTCOME_SUCCESS), response)
		made.NotExecutedReason = pb.NotExecutedReason_NOT_EXECUTED_REASON_ANSWERED_BY_APPROVER
		return made
	case pb.ApprovalChoice_APPROVAL_CHOICE_CANCEL_TURN:
		turn.Cancelled = true
		return cancelledResult(call)
	}
	return nil
}

func withDetail(code codes.Code, message string, detail *pb.ErrorDetail) error {
	packed, err := anypb.New(detail)
	if err != nil {
		return err
	}
	state := status.New(code, message).Proto()
	state.Details = append(state.Details, packed)
	return status.FromProto(state).Err()
}

func notFound(kind string) error {
	return withDetail(codes.NotFound, "there is no such "+kind, &pb.ErrorDetail{
		Reason: pb.ErrorReason_ERROR_REASON_NOT_FOUND, Code: "not_found", ResourceKind: kind,
	})
}

// rpcError is an error that travels as a message.
func rpcError(err error) *pb.RpcError {
	state := status.Convert(err)
	made := &pb.RpcError{Status: uint32(state.Code()), Message: state.Message()}
	for _, item := range state.Details() {
		if detail, ok := item.(*pb.ErrorDetail); ok {
			made.Detail = detail
		}
	}
	return made
}

// Refusal is an error of the sidecar: a status and a detail with a reason.
func Refusal(code codes.Code, reason pb.ErrorReason, word string) error {
	return withDetail(code, word, &pb.ErrorDetail{Reason: reason, Code: word})
}
