// The fake sidecar as the tests of users see it.

package callgatetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/internal/fake"
	"callgate.invalid/clients/go/internal/pb"
)

// patience is how long anything here waits for something.
const patience = 10 * time.Second

// Sidecar speaks to executors, orchestrators and approvers, well enough to test them. It ends with its
// test. Its methods fail the test in place of returning errors.
type Sidecar struct {
	t            testing.TB
	fake         *fake.Sidecar
	orchestrator *callgate.Client
	calls        int
}

// New begins to serve.
func New(t testing.TB) *Sidecar {
	t.Helper()
	made := &Sidecar{t: t, fake: fake.New()}
	t.Cleanup(made.fake.Close)
	orchestrator, err := callgate.New(made.options(nil)...)
	if err != nil {
		t.Fatal(err)
	}
	made.orchestrator = orchestrator
	t.Cleanup(func() { _ = orchestrator.Close(context.Background()) })
	return made
}

func (s *Sidecar) options(given []callgate.Option) []callgate.Option {
	quick := callgate.Backoff{Initial: 10 * time.Millisecond, Cap: 100 * time.Millisecond}
	return append([]callgate.Option{
		callgate.WithEndpoint("http://localhost:1"), callgate.WithDialer(s.fake.Dial), callgate.WithBackoff(quick),
	}, given...)
}

// Options are those of any client, approver or process of hooks that is to reach the sidecar.
func (s *Sidecar) Options(given ...callgate.Option) []callgate.Option { return s.options(given) }

// Client is a client of the sidecar with tools, whose executor is named test. It is ready, and closed
// with the test. Without tools it runs turns.
func (s *Sidecar) Client(tools ...*callgate.Definition) *callgate.Client {
	s.t.Helper()
	return s.ClientWith(nil, tools...)
}

// ClientWith is Client with options.
func (s *Sidecar) ClientWith(given []callgate.Option, tools ...*callgate.Definition) *callgate.Client {
	s.t.Helper()
	made, err := callgate.New(s.options(append([]callgate.Option{callgate.WithExecutor("test")}, given...))...)
	if err == nil {
		err = made.Add(tools...)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = made.Close(ctx)
	})
	if err := made.WaitReady(s.patient()); err != nil {
		s.t.Fatal(err)
	}
	return made
}

// Approvals is an approver's connection to the sidecar, closed with the test.
func (s *Sidecar) Approvals(given ...callgate.Option) *callgate.Approvals {
	s.t.Helper()
	made, err := callgate.NewApprovals(s.options(given)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = made.Close() })
	return made
}

// patient is a context that ends after a while, and with the test at the latest.
func (s *Sidecar) patient() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// Ask lets every call of a tool wait for a decision from now on.
func (s *Sidecar) Ask(tool string, risk callgate.Risk) {
	number := map[callgate.Risk]pb.RiskLevel{
		callgate.Safe:      pb.RiskLevel_RISK_LEVEL_SAFE,
		callgate.Sensitive: pb.RiskLevel_RISK_LEVEL_SENSITIVE,
		callgate.Dangerous: pb.RiskLevel_RISK_LEVEL_DANGEROUS,
	}[risk]
	s.fake.Do(func() { s.fake.Approvals.Ask[tool] = number })
}

// Asked returns once so many calls wait; find them with Approvals.
func (s *Sidecar) Asked(count int) {
	s.t.Helper()
	s.until("calls that wait", func() bool { return len(s.fake.Approvals.Waiting()) >= count })
}

func (s *Sidecar) until(what string, condition func() bool) {
	s.t.Helper()
	if !s.fake.Until(s.patient(), condition) {
		s.t.Fatalf("there were no %s within %v", what, patience)
	}
}

// DropStreams breaks every stream, as a lost connection would.
func (s *Sidecar) DropStreams() { s.fake.DropStreams() }

// Restart goes away, calls down if that is given, and comes back with its memory of calls and turns.
func (s *Sidecar) Restart(down func()) {
	s.fake.Down()
	if down != nil {
		down()
	}
	s.fake.Up()
}

// HoldAcks acknowledges no result from now on.
func (s *Sidecar) HoldAcks() { s.fake.Do(func() { s.fake.Executors.HoldAcks = true }) }

// ReleaseAcks acknowledges again, what was held back included.
func (s *Sidecar) ReleaseAcks() { s.fake.Executors.ReleaseAcks() }

// GoAway announces the end of every executor stream, and that executors come back within a span.
func (s *Sidecar) GoAway(comeBack time.Duration) {
	s.fake.Executors.SendAll(&pb.ConnectResponse{Body: &pb.ConnectResponse_GoAway{GoAway: &pb.GoAway{
		Reason: pb.GoAwayReason_GO_AWAY_REASON_SHUTDOWN, DrainMs: 10_000, ReconnectMaxMs: uint32(comeBack.Milliseconds()),
	}}})
}

// Call is one call that the sidecar was asked for.
type Call struct {
	sidecar *Sidecar
	id      string
	turn    *callgate.Turn
}

// CallOptions says more about a call. The zero value is enough.
type CallOptions struct {
	CallID    string
	SessionID string
	// Metadata is the session's, as the handler sees it: JSON text of an object.
	Metadata string
}

// Call runs a tool and returns how it ended.
func (s *Sidecar) Call(tool string, arguments any) *callgate.CallResult {
	s.t.Helper()
	return s.Start(tool, arguments, CallOptions{}).Result()
}

// Start sends a call, after waiting for an executor with the tool. Arguments as text are sent as they are.
func (s *Sidecar) Start(tool string, arguments any, more CallOptions) *Call {
	s.t.Helper()
	s.until("executors with `"+tool+"`", func() bool { return s.fake.Executors.Owner(tool) != nil })
	if more.CallID == "" {
		more.CallID = "call"
	}
	if more.SessionID == "" {
		more.SessionID = "session"
	}
	s.calls++
	turn, err := s.orchestrator.RunTurn(s.patient(), callgate.TurnRequest{
		SessionID: more.SessionID, TurnID: fmt.Sprintf("test-%d", s.calls), ModelMessage: []byte(more.Metadata), Output: true,
		Calls: []callgate.ToolCall{{CallID: more.CallID, Name: tool, Arguments: arguments}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return &Call{sidecar: s, id: more.CallID, turn: turn}
}

// Result is how the call ended.
func (c *Call) Result() *callgate.CallResult {
	c.sidecar.t.Helper()
	result, err := c.turn.Wait()
	if err != nil {
		c.sidecar.t.Fatal(err)
	}
	return result.Call(c.id)
}

// Seen is what the executor has said about a call so far.
type Seen struct {
	// Accepted has one for each acceptance: whether it had to wait for a slot.
	Accepted []bool
	// Progress are the messages of reports.
	Progress []string
	Output   []byte
	// Dropped are bytes printed beyond the credit, as far as told.
	Dropped uint64
	// Results counts how often the result came; more than once only after a reconnect.
	Results    int
	CancelAcks int
	Rejected   bool
	Abandoned  bool
}

// Seen is what the executor has said so far.
func (c *Call) Seen() Seen {
	var made Seen
	c.sidecar.fake.Do(func() { made = c.seen() })
	return made
}

// Until returns once what the executor has said is so.
func (c *Call) Until(condition func(Seen) bool) {
	c.sidecar.t.Helper()
	c.sidecar.until("such words of the executor", func() bool { return condition(c.seen()) })
}

// execution is nil before the call was sent. Under the lock.
func (c *Call) execution() *fake.Execution {
	turn := c.sidecar.fake.Turns.Turns[c.turn.ID()]
	if turn == nil {
		return nil
	}
	return turn.Calls[0].Execution
}

func (c *Call) seen() Seen {
	x := c.execution()
	if x == nil {
		return Seen{}
	}
	made := Seen{
		Accepted: append([]bool(nil), x.Accepted...), Results: len(x.Results), CancelAcks: x.CancelAcks,
		Rejected: x.Rejected != nil, Abandoned: x.Abandoned,
	}
	for _, report := range x.Progress {
		made.Progress = append(made.Progress, report.GetMessage())
	}
	for _, chunk := range x.Output {
		made.Output = append(made.Output, chunk.GetData()...)
		made.Dropped += chunk.GetDroppedBytes()
	}
	return made
}

// Cancel tells the executor to stop the call, once it was sent.
func (c *Call) Cancel(reason callgate.CancelReason, message string) {
	c.sidecar.t.Helper()
	c.sidecar.until("sent calls", func() bool { return c.execution() != nil })
	number := map[callgate.CancelReason]pb.CancelReason{
		callgate.CancelledCall:     pb.CancelReason_CANCEL_REASON_CALL_CANCELLED,
		callgate.CancelledTurn:     pb.CancelReason_CANCEL_REASON_TURN_CANCELLED,
		callgate.CancelledRun:      pb.CancelReason_CANCEL_REASON_RUN_ENDED,
		callgate.CancelledDeadline: pb.CancelReason_CANCEL_REASON_DEADLINE,
		callgate.CancelledShutdown: pb.CancelReason_CANCEL_REASON_SHUTDOWN,
	}[reason]
	c.sidecar.fake.Do(func() { c.execution().Cancel(number, message, 5*time.Second) })
}
