// One dispatched call, from its arrival until its result is acknowledged.
//
// Moves queued → running → finished and never back; its handler begins at most once. Everything
// but the reports belongs to the executor and is read and written under its lock.

package callgate

import (
	"context"
	"sync"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

const progressInterval = 100 * time.Millisecond

type executionKey struct {
	id      string
	attempt uint32
}

func keyOf(ref *pb.ExecutionRef) executionKey {
	return executionKey{ref.GetExecutionId(), ref.GetAttempt()}
}

type execution struct {
	request *pb.ExecuteRequest
	key     executionKey
	tool    *Definition
	host    *executor
	arrived time.Time

	ctx    context.Context
	cancel context.CancelCauseFunc

	state        pb.InFlightState
	outcome      outcome
	told         bool
	forgotten    bool
	givenUp      bool
	giveUp       *time.Timer
	finishNumber int
	// The stream that has carried the result, so that each carries it once. The link's own.
	sentOn any

	reports executionReports
}

func newExecution(request *pb.ExecuteRequest, tool *Definition, host *executor) *execution {
	made := &execution{
		request: request, key: keyOf(request.GetExecution()), tool: tool, host: host, arrived: time.Now(),
		state: pb.InFlightState_IN_FLIGHT_STATE_QUEUED,
	}
	made.reports.credit = int(request.GetOutputCreditBytes())
	made.reports.of = made
	base, cancel := context.WithCancelCause(context.Background())
	made.cancel = cancel
	made.ctx = context.WithValue(base, callKey{}, made.call())
	return made
}

// call is what the handler gets.
func (x *execution) call() *Call {
	sent := x.request.GetContext()
	state := sent.GetState()
	sessionID := state.GetSessionId()
	if sessionID == "" {
		sessionID = sent.GetSessionId()
	}
	return &Call{
		SessionID:   sent.GetSessionId(),
		RunID:       sent.GetRunId(),
		TurnID:      sent.GetTurnId(),
		BatchCallID: sent.GetBatchCallId(),
		CallID:      x.request.GetCallId(),
		Cwd:         sent.GetCwd(),
		ExecutionID: x.key.id,
		Attempt:     x.key.attempt,
		Traceparent: sent.GetTrace().GetTraceparent(),
		State:       SessionState{state.GetSchemaVersion(), sessionID, state.GetMetadataJson()},
		services:    &AllowedServices{x.host.services, sent.GetServices()},
		deadline:    deadlineOf(x.request, x.arrived),
		reports:     &x.reports,
	}
}

// deadlineOf is the earlier of the two that were sent. Zero: none.
func deadlineOf(request *pb.ExecuteRequest, now time.Time) time.Time {
	var found time.Time
	if span := request.GetTimeoutMs(); span > 0 {
		found = now.Add(time.Duration(span) * time.Millisecond)
	}
	if at := request.GetDeadlineAtMs(); at > 0 {
		if other := time.UnixMilli(int64(at)); found.IsZero() || other.Before(found) {
			found = other
		}
	}
	return found
}

func (x *execution) arguments() []byte {
	if text := x.request.GetArgumentsJson(); len(text) > 0 {
		return text
	}
	return []byte("{}")
}

// executionReports are progress and output of one execution. They come from the handler's goroutines.
type executionReports struct {
	of *execution

	mu         sync.Mutex
	closed     bool
	credit     int
	dropped    uint64
	sequence   uint64
	report     *progressReport
	timer      *time.Timer
	progressAt time.Time
}

type progressReport struct {
	message  string
	fraction *float64
	details  []byte
}

// progress keeps the newest report; an older one that was not sent yet is replaced.
func (r *executionReports) progress(message string, fraction *float64, details []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.report = &progressReport{message, fraction, details}
	if r.timer != nil {
		return
	}
	if wait := time.Until(r.progressAt); wait > 0 {
		r.timer = time.AfterFunc(wait, r.sendLate)
		return
	}
	r.send()
}

func (r *executionReports) sendLate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.timer = nil
	r.send()
}

// send is called under the lock.
func (r *executionReports) send() {
	report := r.report
	r.report = nil
	if report == nil || r.closed {
		return
	}
	r.progressAt = time.Now().Add(progressInterval)
	r.of.host.link.progress(r.of, report)
}

// output takes what credit allows, so that what waits to be sent is bounded by credit.
func (r *executionReports) output(data []byte, channel OutputChannel) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := 0
	if !r.closed {
		taken = min(r.credit, len(data))
	}
	r.credit -= taken
	dropped := r.dropped
	r.dropped = 0
	for rest := data[:taken]; len(rest) > 0; {
		piece := rest[:min(len(rest), r.of.host.chunkMax())]
		rest = rest[len(piece):]
		r.sequence++
		if !r.of.host.link.output(r.of, channel, r.sequence, append([]byte(nil), piece...), dropped) {
			r.dropped += uint64(len(piece)) + dropped
		}
		dropped = 0
	}
	r.dropped += dropped + uint64(len(data)-taken)
	return taken
}

// addCredit: more may be printed, or nobody listens any more.
func (r *executionReports) addCredit(added int, stop bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.credit += added
	if stop {
		r.credit = 0
	}
}

// noteLost counts output that was taken and went down with a stream.
func (r *executionReports) noteLost(count uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropped += count
}

// close: nothing may follow a result.
func (r *executionReports) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.report = nil
	if r.timer != nil {
		r.timer.Stop()
	}
}
