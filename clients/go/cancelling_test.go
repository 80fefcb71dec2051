// Calls that are told to stop, and handlers that do or do not.

package callgate_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/internal/fake"
	"callgate.invalid/clients/go/internal/pb"
)

func (s *side) cancel(x *fake.Execution, reason pb.CancelReason, message string) {
	s.Do(func() { x.Cancel(reason, message, time.Second) })
}

const cancelCall = pb.CancelReason_CANCEL_REASON_CALL_CANCELLED

func TestHandlerIsToldReasonAndMessageAndAnswersOnce(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	causes := make(chan error, 1)
	s.executor([]*callgate.Definition{plain("wait", func(ctx context.Context) (string, error) {
		gate.began <- struct{}{}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return "", ctx.Err()
	})})
	x := s.dispatch("wait", "{}")
	<-gate.began
	s.cancel(x, pb.CancelReason_CANCEL_REASON_DEADLINE, "too slow")
	s.cancel(x, cancelCall, "again")
	var why *callgate.Cancellation
	if cause := <-causes; !errors.As(cause, &why) || !errors.Is(cause, context.Canceled) {
		t.Fatalf("%v", cause)
	}
	equal(t, "cause", *why, callgate.Cancellation{Reason: callgate.CancelledDeadline, Message: "too slow"})
	found := s.result(x)
	equal(t, "effect", found.GetCancelled().GetEffect(), pb.CallEffect_CALL_EFFECT_UNKNOWN)
	s.until(func() bool { return x.CancelAcks == 2 })
	equal(t, "results", len(x.Results), 1)
}

func TestEffectThatTheHandlerKnowsIsTold(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{plain("wait", func(ctx context.Context) (string, error) {
		gate.began <- struct{}{}
		<-ctx.Done()
		return "", &callgate.Stopped{Effect: callgate.EffectNotExecuted, Message: "nothing was done"}
	})})
	x := s.dispatch("wait", "{}")
	<-gate.began
	s.cancel(x, cancelCall, "")
	found := s.result(x).GetCancelled()
	equal(t, "effect", found.GetEffect(), pb.CallEffect_CALL_EFFECT_NOT_EXECUTED)
	equal(t, "message", found.GetMessage(), "nothing was done")
}

func TestHandlerThatFinishesAllTheSameWinsTheRace(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{gate.deaf("deaf"), plain("fails", func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", callgate.Errorf("out_of_flour", "there is none")
	})})
	x, y := s.dispatch("deaf", "{}"), s.dispatch("fails", "{}")
	<-gate.began
	s.cancel(x, cancelCall, "")
	s.cancel(y, cancelCall, "")
	s.until(func() bool { return x.CancelAcks == 1 })
	close(gate.open)
	equal(t, "text", text(s.result(x).GetResult()), "done")
	equal(t, "code", s.result(y).GetResult().GetError().GetCode(), "out_of_flour")
}

func TestStopThatNobodyAskedForIsAFailure(t *testing.T) {
	s := newSide(t)
	s.executor([]*callgate.Definition{plain("stops", func(context.Context) (string, error) {
		return "", &callgate.Stopped{Effect: callgate.EffectExecuted, Message: "I had enough"}
	})})
	found := s.answer("stops", "{}")
	equal(t, "code", found.GetError().GetCode(), "tool_execution_failed")
	equal(t, "text", text(found), "I had enough")
}

func TestCallCancelledWhileItWaitsForASlotNeverBegins(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{gate.tool("wait")}, callgate.WithConcurrency(1))
	first, second := s.dispatch("wait", "{}"), s.dispatch("wait", "{}")
	<-gate.began
	s.cancel(second, cancelCall, "")
	equal(t, "effect", s.result(second).GetCancelled().GetEffect(), pb.CallEffect_CALL_EFFECT_NOT_EXECUTED)
	close(gate.open)
	s.result(first)
	equal(t, "began", len(gate.began), 0)
}

func TestUnknownExecutionIsAcknowledgedAndNothingElse(t *testing.T) {
	s := newSide(t)
	s.executor([]*callgate.Definition{plain("any", func(context.Context) (string, error) { return "", nil })})
	s.Executors.SendAll(&pb.ConnectResponse{Body: &pb.ConnectResponse_Cancel{Cancel: &pb.CancelExecution{
		Execution: &pb.ExecutionRef{ExecutionId: "never", Attempt: 1}, Reason: cancelCall,
	}}})
	stream := s.Executors.Owner("any").Stream
	s.until(func() bool {
		return len(stream.Received) > 0 && stream.Received[len(stream.Received)-1].GetCancelAck() != nil
	})
	ack := stream.Received[len(stream.Received)-1].GetCancelAck()
	equal(t, "unknown", ack.GetUnknownExecution() && ack.GetExecution().GetExecutionId() == "never", true)
}

// lines is a log that can be read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *lines) has(words string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), words)
}

func TestSlotsOfHandlersThatWereGivenUpAreTold(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	log := &lines{}
	s.executor([]*callgate.Definition{gate.deaf("deaf")}, callgate.WithConcurrency(1), callgate.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
	x := s.dispatch("deaf", `{}`)
	<-gate.began
	s.Do(func() { x.Cancel(cancelCall, "secret words", 0) })
	for !log.has("no call can run until a handler that was given up returns") {
		time.Sleep(10 * time.Millisecond) // Until the time of the handler has passed.
	}
	close(gate.open)
	s.result(x)
	if log.has("secret words") || !log.has("deaf") {
		t.Error(log.text.String())
	}
}
