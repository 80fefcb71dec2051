// What became of a tool when it was registered.

package callgate

import (
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

// ToolWarning is something dubious in a definition that was taken all the same.
type ToolWarning struct {
	Code    string
	Path    string
	Message string
}

// Registration is the sidecar's answer about one tool.
type Registration struct {
	Name string
	// Active: the tool may be called. Otherwise it was refused, and Error says why, or removed.
	Active     bool
	Error      *ErrorInfo
	Digest     []byte
	Generation uint32
	Warnings   []ToolWarning
}

func registrationOf(message *pb.ToolRegistration) Registration {
	made := Registration{
		Name:       message.GetName(),
		Active:     message.GetState() == pb.RegistrationState_REGISTRATION_STATE_ACTIVE,
		Error:      errorInfoOf(message.GetError()),
		Digest:     message.GetToolDigest(),
		Generation: message.GetGeneration(),
	}
	for _, item := range message.GetWarnings() {
		made.Warnings = append(made.Warnings, ToolWarning{item.GetCode(), item.GetPath(), item.GetMessage()})
	}
	return made
}

func registrationsOf(messages []*pb.ToolRegistration) []Registration {
	made := make([]Registration, 0, len(messages))
	for _, item := range messages {
		made = append(made, registrationOf(item))
	}
	return made
}

func errorInfoOf(message *pb.ToolError) *ErrorInfo {
	if message == nil {
		return nil
	}
	return &ErrorInfo{
		Code:       message.GetCode(),
		Message:    message.GetMessageForModel(),
		Detail:     message.GetDetail(),
		Path:       message.GetPath(),
		Retryable:  message.GetRetryable(),
		RetryAfter: time.Duration(message.GetRetryAfterMs()) * time.Millisecond,
		Layer:      enumName(message.GetLayer(), "runtime"),
	}
}
