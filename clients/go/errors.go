// What can go wrong, as errors that a program can act on.
//
// Errors that the handlers of tools return are another family: see ToolError. The two never mix.

package callgate

import (
	"strings"
	"time"
)

// A Kind is a class of errors, to be asked for with errors.Is.
type Kind struct {
	code   string
	text   string
	parent *Kind
}

// Error says what the kind stands for.
func (k *Kind) Error() string { return k.text }

// The kinds of errors. The code of an [Error] says more than its kind.
var (
	// ErrConnectionLost: the sidecar cannot be reached, or went away and did not come back in time.
	// Says nothing about a turn that ran: take it up with Client.AttachTurn.
	ErrConnectionLost = &Kind{"connection_lost", "the sidecar cannot be reached", nil}
	// ErrUnauthenticated: there is no credential, or the sidecar does not know it.
	ErrUnauthenticated = &Kind{"credential_invalid", "the credential is not known", nil}
	// ErrPermissionDenied: the credential, a rule or a person said no.
	ErrPermissionDenied = &Kind{"role_missing", "not permitted", nil}
	// ErrInvalidRequest: a request is wrong; see Error.Violations.
	ErrInvalidRequest = &Kind{"invalid_request", "the request is wrong", nil}
	// ErrInvalidArguments: the arguments of a call do not parse or do not fit. Is ErrInvalidRequest too.
	ErrInvalidArguments = &Kind{"tool_argument_invalid", "the arguments of a call do not fit", ErrInvalidRequest}
	// ErrNotFound: there is no such thing, or it is not the caller's to see.
	ErrNotFound = &Kind{"not_found", "there is no such thing", nil}
	// ErrToolNotFound: there is no such tool. Is ErrNotFound too.
	ErrToolNotFound = &Kind{"tool_not_found", "there is no such tool", ErrNotFound}
	// ErrConflict: the state does not allow it: an id used twice, an ended run, a busy run.
	ErrConflict = &Kind{"call_conflict", "the state does not allow it", nil}
	// ErrRunNotActive: the run has ended and takes no more turns. Is ErrConflict too.
	ErrRunNotActive = &Kind{"run_not_active", "the run has ended", ErrConflict}
	// ErrDecisionConflict: a decision came too late; Error.Approval has the winner. Is ErrConflict too.
	ErrDecisionConflict = &Kind{"approval_already_decided", "decided otherwise before", ErrConflict}
	// ErrDecisionRefused: a decision was not taken, and nothing changed; the code says why.
	ErrDecisionRefused = &Kind{"decision_refused", "the decision was not taken", nil}
	// ErrSuspended: a turn with EndOnSuspend has no result yet: it waits for people. The turn goes on.
	ErrSuspended = &Kind{"turn_suspended", "the turn waits for people", nil}
	// ErrLimitExceeded: beyond a limit, or the sidecar sheds load; see Error.Limit and Error.RetryAfter.
	ErrLimitExceeded = &Kind{"limit_exceeded", "beyond a limit", nil}
	// ErrUnavailable: the sidecar is there and cannot do it now: draining, or its store is down.
	ErrUnavailable = &Kind{"unavailable", "the sidecar cannot do it now", nil}
	// ErrDeadlineExceeded: something took too long.
	ErrDeadlineExceeded = &Kind{"deadline_exceeded", "it took too long", nil}
	// ErrCancelled: a call, turn or run was cancelled.
	ErrCancelled = &Kind{"cancelled", "cancelled", nil}
	// ErrProtocol: the two sides do not understand each other: versions, or a broken peer.
	ErrProtocol = &Kind{"protocol_violation", "the peer is not understood", nil}
	// ErrSuperseded: another process connected as the same executor instance. This one stays away.
	ErrSuperseded = &Kind{"superseded", "another process took over", nil}
	// ErrCallFailed: a call ended with an error that no other kind stands for, e.g. the tool's own.
	ErrCallFailed = &Kind{"tool_execution_failed", "the call failed", nil}
	// ErrRegistrationRefused: the sidecar refused tools or hooks; see Error.Refused.
	ErrRegistrationRefused = &Kind{"registration_refused", "the sidecar refused a registration", nil}
	// ErrDefinition: a tool, a hook or a decision cannot be made of this.
	ErrDefinition = &Kind{"tool_definition_invalid", "it cannot be made of this", nil}
	// ErrClosed: the client has been closed.
	ErrClosed = &Kind{"client_closed", "the client is closed", nil}

	errInternal = &Kind{"internal", "a fault", nil}
)

// FieldViolation is one wrong field of a request; Field is a path such as calls[1].call_id.
type FieldViolation struct {
	Field   string
	Code    string
	Message string
}

// LimitViolation is one limit that was passed. Actual is 0 where it was not measured.
type LimitViolation struct {
	Name    string
	Allowed uint64
	Actual  uint64
}

// Error is what everything in this package fails with.
type Error struct {
	// Code is stable and never renamed.
	Code string
	// Message is for people.
	Message string
	// Retryable: the same may succeed later.
	Retryable bool
	// RetryAfter: not earlier than this. Zero: no advice.
	RetryAfter time.Duration
	// Violations are the wrong fields of a request.
	Violations []FieldViolation
	// Limit is the one that was passed. Nil: none.
	Limit *LimitViolation
	// ResourceKind and ResourceID say what was meant, e.g. "turn" and its id.
	ResourceKind string
	ResourceID   string
	// Approval, of ErrDecisionConflict and ErrDecisionRefused, is the approval now. Nil: there is none.
	Approval *Approval
	// TurnID and ApprovalIDs, of ErrSuspended, say what waits for what.
	TurnID      string
	ApprovalIDs []string
	// Refused, of ErrRegistrationRefused, has one registration for each refused tool.
	Refused []Registration

	kind  *Kind
	cause error
}

// Error is the message and the code.
func (e *Error) Error() string { return e.Message + " [" + e.Code + "]" }

// Is says whether the error is of a kind, or of a kind below it.
func (e *Error) Is(target error) bool {
	wanted, ok := target.(*Kind)
	if !ok {
		return false
	}
	for own := e.kind; own != nil; own = own.parent {
		if own == wanted {
			return true
		}
	}
	return false
}

// Unwrap is the reason behind the error, e.g. the context's.
func (e *Error) Unwrap() error { return e.cause }

func newError(kind *Kind, message string) *Error {
	retryable := kind == ErrConnectionLost || kind == ErrUnavailable || kind == ErrDeadlineExceeded
	return &Error{Code: kind.code, Message: message, Retryable: retryable, kind: kind}
}

func codedError(kind *Kind, code, message string) *Error {
	made := newError(kind, message)
	if code != "" {
		made.Code = code
	}
	return made
}

// is says whether an error of ours is of one of the kinds.
func (e *Error) isAny(kinds ...*Kind) bool {
	for _, kind := range kinds {
		if e.Is(kind) {
			return true
		}
	}
	return false
}

// errorForCall is the error that stands for the error of one call.
func errorForCall(info ErrorInfo) *Error {
	made := codedError(kindOfCallCode(info.Code), info.Code, info.Message)
	made.Retryable = info.Retryable
	made.RetryAfter = info.RetryAfter
	return made
}

func kindOfCallCode(code string) *Kind {
	switch {
	case code == "tool_not_found":
		return ErrToolNotFound
	case strings.HasPrefix(code, "json_"), strings.HasPrefix(code, "tool_argument_"), code == codeRejected:
		return ErrInvalidArguments
	case strings.HasPrefix(code, "approval_"), strings.HasPrefix(code, "tool_denied_"), code == "tool_batch_rejected":
		return ErrPermissionDenied
	case code == "tool_cancelled":
		return ErrCancelled
	case code == "tool_timeout":
		return ErrDeadlineExceeded
	case code == "limit_exceeded":
		return ErrLimitExceeded
	case code == "tool_unavailable", code == "store_unavailable":
		return ErrUnavailable
	}
	return ErrCallFailed
}
