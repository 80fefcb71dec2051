// What a handler may know about its call besides the arguments.
//
// Holds no credentials, and nothing in it changes the session.

package callgate

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"slices"
	"sync"
	"time"
)

// An OutputChannel says what a piece of output is.
type OutputChannel string

// What a piece of output is.
const (
	ChannelText   OutputChannel = "text"
	ChannelStdout OutputChannel = "stdout"
	ChannelStderr OutputChannel = "stderr"
	ChannelData   OutputChannel = "data"
)

// SessionState is a read-only copy of the session's state.
type SessionState struct {
	// SchemaVersion is the form of the metadata, counted by the orchestrator. Zero: not used.
	SchemaVersion uint32
	SessionID     string
	metadata      []byte
}

// Metadata is as the orchestrator set it: a copy of its own for each caller. Numbers are json.Number.
func (s SessionState) Metadata() map[string]any {
	made := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(s.metadata))
	decoder.UseNumber()
	if len(s.metadata) > 0 && decoder.Decode(&made) != nil {
		// Text that is no object reads as empty.
		return map[string]any{}
	}
	return made
}

// Call is one call as its handler sees it. Its methods may be called from any goroutine and never block.
type Call struct {
	SessionID   string
	RunID       string
	TurnID      string
	BatchCallID string
	CallID      string
	// Cwd is the session's working directory. Empty: none was set.
	Cwd string
	// ExecutionID is the same for all attempts of a call: an idempotency key. Attempt counts from 1.
	ExecutionID string
	Attempt     uint32
	// Traceparent is W3C trace context. Empty: no trace.
	Traceparent string
	State       SessionState

	services *AllowedServices
	deadline time.Time
	reports  reporter
}

// reporter is where progress and output of one execution go. Methods never block.
type reporter interface {
	progress(message string, fraction *float64, details []byte)
	output(data []byte, channel OutputChannel) int
}

type callKey struct{}

// CallFromContext is the call that a handler runs for. Outside of one it is an empty call whose
// reports go nowhere, never nil.
func CallFromContext(ctx context.Context) *Call {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		return call
	}
	return &Call{services: &AllowedServices{}}
}

// TimeRemaining is how long until the call times out, never below zero, and whether there is a limit.
// Advice by the local clock: the sidecar enforces the limit.
func (c *Call) TimeRemaining() (time.Duration, bool) {
	if c.deadline.IsZero() {
		return 0, false
	}
	return max(0, time.Until(c.deadline)), true
}

// Progress reports how far the work is: a message for people, at most 1 KiB, and the done part, 0
// to 1. About ten a second are passed on; of more, the newest wins.
func (c *Call) Progress(message string, fraction float64) {
	if c.reports != nil {
		// What is no number is no part.
		bounded := &fraction
		if fraction = min(1, max(0, fraction)); math.IsNaN(fraction) {
			bounded = nil
		}
		c.reports.progress(message, bounded, nil)
	}
}

// ProgressDetails is Progress without a fraction and with any JSON value, dropped beyond 16 KiB.
//
// Fails if the details are no JSON.
func (c *Call) ProgressDetails(message string, details any) error {
	var text []byte
	if details != nil {
		var err error
		if text, err = encodeJSON(details); err != nil {
			return err
		}
	}
	if c.reports != nil {
		c.reports.progress(message, nil, text)
	}
	return nil
}

// Output prints something that is worth seeing while the call runs; it is no part of the result.
//
// Sent as far as readers have given credit; the rest is dropped and counted. Returns how many bytes
// were taken.
func (c *Call) Output(channel OutputChannel, data []byte) int {
	if c.reports == nil {
		return 0
	}
	return c.reports.output(data, channel)
}

// Writer is Output as an io.Writer, e.g. for the standard output of a command. It takes everything
// and never fails; what nobody has credit for is dropped.
func (c *Call) Writer(channel OutputChannel) io.Writer { return outputWriter{c, channel} }

type outputWriter struct {
	call    *Call
	channel OutputChannel
}

func (w outputWriter) Write(data []byte) (int, error) {
	w.call.Output(w.channel, data)
	return len(data), nil
}

// Services is what the call may use; every other id reads as absent.
func (c *Call) Services() *AllowedServices { return c.services }

// A Service is something of the process that handlers may share, e.g. a database pool.
type Service interface {
	// ServiceID names it in WithServices.
	ServiceID() string
}

// Services are the services of a process. For any goroutine.
type Services struct {
	mu    sync.RWMutex
	known map[string]Service
}

// Register adds a service. False, and nothing changes, if its id is taken.
func (s *Services) Register(service Service) bool {
	id := service.ServiceID()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.known[id]; taken {
		return false
	}
	if s.known == nil {
		s.known = map[string]Service{}
	}
	s.known[id] = service
	return true
}

// Get is the service of that id. Nil: there is none.
func (s *Services) Get(id string) Service {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.known[id]
}

// AllowedServices are the services that one call may use.
type AllowedServices struct {
	all *Services
	ids []string
}

// Get is the service of that id. Nil: the call may not use it, or nobody registered it.
func (a *AllowedServices) Get(id string) Service {
	if a == nil || a.all == nil || !slices.Contains(a.ids, id) {
		return nil
	}
	return a.all.Get(id)
}

// IDs are the ids that the call may use, registered or not.
func (a *AllowedServices) IDs() []string {
	if a == nil {
		return nil
	}
	return slices.Clone(a.ids)
}

// ServiceOf is a service of the call that a handler runs for, as the type that it is.
func ServiceOf[S Service](ctx context.Context, id string) (S, bool) {
	service, ok := CallFromContext(ctx).Services().Get(id).(S)
	return service, ok
}
