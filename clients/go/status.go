// Turns what grpc fails with into an Error. In this file only.

package callgate

import (
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"callgate.invalid/clients/go/internal/pb"
)

const detailURL = "type.googleapis.com/callgate.v1.ErrorDetail"

var kindByReason = map[pb.ErrorReason]*Kind{
	pb.ErrorReason_ERROR_REASON_CREDENTIAL_INVALID:       ErrUnauthenticated,
	pb.ErrorReason_ERROR_REASON_ROLE_MISSING:             ErrPermissionDenied,
	pb.ErrorReason_ERROR_REASON_NAME_FORBIDDEN:           ErrPermissionDenied,
	pb.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED:           ErrLimitExceeded,
	pb.ErrorReason_ERROR_REASON_OVERLOADED:               ErrLimitExceeded,
	pb.ErrorReason_ERROR_REASON_SLOW_READER:              ErrLimitExceeded,
	pb.ErrorReason_ERROR_REASON_DRAINING:                 ErrUnavailable,
	pb.ErrorReason_ERROR_REASON_STORE_UNAVAILABLE:        ErrUnavailable,
	pb.ErrorReason_ERROR_REASON_NOT_FOUND:                ErrNotFound,
	pb.ErrorReason_ERROR_REASON_APPROVAL_NOT_FOUND:       ErrNotFound,
	pb.ErrorReason_ERROR_REASON_ALREADY_EXISTS:           ErrConflict,
	pb.ErrorReason_ERROR_REASON_ETAG_MISMATCH:            ErrConflict,
	pb.ErrorReason_ERROR_REASON_SESSION_CLOSED:           ErrConflict,
	pb.ErrorReason_ERROR_REASON_APPROVAL_ALREADY_DECIDED: ErrDecisionConflict,
	pb.ErrorReason_ERROR_REASON_APPROVAL_NOT_PENDING:     ErrDecisionConflict,
	pb.ErrorReason_ERROR_REASON_APPROVAL_DIGEST_MISMATCH: ErrConflict,
	pb.ErrorReason_ERROR_REASON_DECISION_ID_REUSED:       ErrConflict,
	pb.ErrorReason_ERROR_REASON_MODE_NOT_ALLOWED:         ErrConflict,
	pb.ErrorReason_ERROR_REASON_CALL_CONFLICT:            ErrConflict,
	pb.ErrorReason_ERROR_REASON_RUN_BUSY:                 ErrConflict,
	pb.ErrorReason_ERROR_REASON_TOOLSET_IN_USE:           ErrConflict,
	pb.ErrorReason_ERROR_REASON_TOOL_NAME_DUPLICATE:      ErrConflict,
	pb.ErrorReason_ERROR_REASON_SNAPSHOT_EXPIRED:         ErrConflict,
	pb.ErrorReason_ERROR_REASON_RUN_NOT_ACTIVE:           ErrRunNotActive,
	pb.ErrorReason_ERROR_REASON_PROTOCOL_UNSUPPORTED:     ErrProtocol,
	pb.ErrorReason_ERROR_REASON_PROTOCOL_VIOLATION:       ErrProtocol,
	pb.ErrorReason_ERROR_REASON_HELLO_REQUIRED:           ErrProtocol,
	pb.ErrorReason_ERROR_REASON_HELLO_TIMEOUT:            ErrDeadlineExceeded,
	pb.ErrorReason_ERROR_REASON_HEARTBEAT_MISSED:         ErrConnectionLost,
	pb.ErrorReason_ERROR_REASON_SUPERSEDED:               ErrSuperseded,
}

// Where there is no detail, or one that is newer than this package.
var kindByStatus = map[codes.Code]*Kind{
	codes.Canceled:           ErrCancelled,
	codes.InvalidArgument:    ErrInvalidRequest,
	codes.DeadlineExceeded:   ErrDeadlineExceeded,
	codes.NotFound:           ErrNotFound,
	codes.AlreadyExists:      ErrConflict,
	codes.PermissionDenied:   ErrPermissionDenied,
	codes.ResourceExhausted:  ErrLimitExceeded,
	codes.FailedPrecondition: ErrConflict,
	codes.Aborted:            ErrConflict,
	codes.OutOfRange:         ErrInvalidRequest,
	codes.Unimplemented:      ErrProtocol,
	codes.Unavailable:        ErrConnectionLost,
	codes.Unauthenticated:    ErrUnauthenticated,
}

// An HTTP/1 server, or no HTTP at all, where gRPC was expected.
var notAPeer = []string{
	"error reading server preface",
	"looked like an HTTP/1.1 header",
	"unexpected content-type",
	"malformed HTTP response",
}

// errorFromGRPC is the Error for a failed rpc. io.EOF of a stream is not for it.
func errorFromGRPC(err error) *Error {
	if own, ok := err.(*Error); ok {
		return own
	}
	state, ok := status.FromError(err)
	if !ok {
		return newError(ErrConnectionLost, err.Error())
	}
	text := state.Message()
	for _, sign := range notAPeer {
		if strings.Contains(text, sign) {
			return newError(ErrProtocol, "there is no gRPC server at this address: "+text)
		}
	}
	return errorOf(state.Code(), text, detailOf(state))
}

// errorFromMessage is the Error for a status that travelled as a message.
func errorFromMessage(message *pb.RpcError) *Error {
	return errorOf(codes.Code(message.GetStatus()), message.GetMessage(), message.GetDetail())
}

func errorOf(code codes.Code, text string, detail *pb.ErrorDetail) *Error {
	kind, known := kindByStatus[code]
	if !known {
		kind = errInternal
	}
	if text == "" {
		text = strings.ToLower(code.String())
	}
	if detail == nil {
		return newError(kind, text)
	}
	if better, known := kindByReason[detail.GetReason()]; known {
		kind = better
	}
	if kind == ErrNotFound && detail.GetResourceKind() == "tool" {
		kind = ErrToolNotFound
	}
	made := codedError(kind, detail.GetCode(), text)
	made.ResourceKind, made.ResourceID = detail.GetResourceKind(), detail.GetResourceId()
	if detail.RetryAfterMs != nil {
		made.RetryAfter = time.Duration(detail.GetRetryAfterMs()) * time.Millisecond
		made.Retryable = true
	}
	for _, item := range detail.GetViolations() {
		code := item.GetCode()
		if code == "" {
			code = ErrInvalidRequest.code
		}
		made.Violations = append(made.Violations, FieldViolation{item.GetField(), code, item.GetMessage()})
	}
	if limit := detail.GetLimit(); limit != nil {
		made.Limit = &LimitViolation{limit.GetName(), limit.GetAllowed(), limit.GetActual()}
	}
	return made
}

func detailOf(state *status.Status) *pb.ErrorDetail {
	for _, item := range state.Proto().GetDetails() {
		if item.GetTypeUrl() != detailURL {
			continue
		}
		detail := &pb.ErrorDetail{}
		if proto.Unmarshal(item.GetValue(), detail) == nil {
			return detail
		}
	}
	return nil
}
