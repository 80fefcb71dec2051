// Errors that the handlers of tools return, and what a cancelled handler is told.

package callgate

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// A ToolError is an error of a handler's own domain. It keeps its code.
//
// Anything else that a handler returns becomes `tool_execution_failed`: the model reads its message,
// bounded, and its type is for operators.
type ToolError struct {
	// Code is stable, [a-z][a-z0-9_]{0,63}. One of the sidecar's own, or of another form, arrives
	// as `tool_execution_failed`.
	Code string
	// Message is what the model reads. At most 4 KiB, then cut.
	Message string
	// Detail is for operators only, never shown to the model. At most 16 KiB, then cut.
	Detail string
	// Path is where in the arguments, from $.
	Path string
	// Retryable: the same call may succeed later.
	Retryable bool
	// RetryAfter: with Retryable, not earlier than this. Zero: no advice.
	RetryAfter time.Duration
	// Stop ends the loop after this turn all the same.
	Stop bool
}

// Error is the message.
func (e *ToolError) Error() string { return e.Message }

// Errorf makes a ToolError of a code and a message.
func Errorf(code, format string, arguments ...any) *ToolError {
	return &ToolError{Code: code, Message: fmt.Sprintf(format, arguments...)}
}

// An Effect says whether a tool may have acted.
type Effect string

// Whether a tool may have acted.
const (
	EffectNotExecuted Effect = "not_executed"
	EffectExecuted    Effect = "executed"
	EffectUnknown     Effect = "unknown"
)

// Stopped is returned by a handler that stopped because it was told to, and knows whether it had
// acted. Returned without a cancellation having been asked for, it is an ordinary failure.
type Stopped struct {
	Effect  Effect
	Message string
}

// Error is the message.
func (e *Stopped) Error() string {
	if e.Message == "" {
		return "stopped"
	}
	return e.Message
}

// A CancelReason says why a call was told to stop.
type CancelReason string

// Why a call was told to stop.
const (
	CancelledCall     CancelReason = "call_cancelled"
	CancelledTurn     CancelReason = "turn_cancelled"
	CancelledRun      CancelReason = "run_ended"
	CancelledDeadline CancelReason = "deadline"
	CancelledShutdown CancelReason = "shutdown"
)

// A Cancellation is the context.Cause of a handler that was told to stop. It is context.Canceled too.
type Cancellation struct {
	Reason CancelReason
	// Message is what whoever cancelled gave.
	Message string
}

// Error is the reason and the message.
func (c *Cancellation) Error() string {
	if c.Message == "" {
		return string(c.Reason)
	}
	return string(c.Reason) + ": " + c.Message
}

// Is says that it is context.Canceled.
func (c *Cancellation) Is(target error) bool { return target == context.Canceled }

// outcome is how an execution ended: an answer, or a stop that was asked for.
type outcome struct {
	answer  *sealed
	stopped *Stopped
}

// outcomeOf is what a handler's error means. A stop counts as one only if it was asked for; else it
// is the handler's failure.
func outcomeOf(err error, cancelled bool) outcome {
	var stopped *Stopped
	var domain *ToolError
	switch {
	case cancelled && errors.As(err, &stopped):
		return outcome{stopped: stopped}
	case cancelled && errors.Is(err, context.Canceled):
		return outcome{stopped: &Stopped{EffectUnknown, "the handler was cancelled"}}
	case errors.As(err, &domain) && domain != nil:
		return outcome{answer: seal(failed(domain))}
	}
	return outcome{answer: seal(failed(unexpected(err)))}
}

// unexpected is the failure that stands for any error: the model gets the message, the rest is for
// operators.
func unexpected(err error) (made *ToolError) {
	made = &ToolError{Code: codeFailed, Detail: fmt.Sprintf("%T", err)}
	defer func() {
		if fault := recover(); fault != nil || made.Message == "" {
			// A broken Error method must not lose the failure itself.
			made.Message = "the tool failed without a message"
		}
	}()
	if panicked, ok := err.(*handlerPanic); ok {
		made.Detail = panicked.stack
	}
	made.Message = err.Error()
	return made
}

// handlerPanic is a panic of a handler, as an error.
type handlerPanic struct {
	value any
	stack string
}

func (p *handlerPanic) Error() string { return fmt.Sprint(p.value) }

// newHandlerPanic is called where the panic is recovered.
func newHandlerPanic(value any) *handlerPanic {
	stack := string(debug.Stack())
	if len(stack) > detailBytesCut-256 {
		stack = stack[:detailBytesCut-256]
	}
	return &handlerPanic{value, fmt.Sprintf("panic: %T\n%s", value, stack)}
}
