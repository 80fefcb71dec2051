// The orchestrator's half of the client: turns, runs, and what a model may see.

package callgate

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"callgate.invalid/clients/go/internal/pb"
)

// RunTurn runs the calls of one model message, and returns at once with a handle for its events and
// its result. When ctx is done before the turn has ended, the turn is cancelled.
//
// Fails here if the request cannot be sent; what the sidecar refuses is what reading the turn fails
// with: ErrRunNotActive, ErrConflict, ErrInvalidRequest, ErrLimitExceeded, ErrUnavailable.
func (c *Client) RunTurn(ctx context.Context, asked TurnRequest) (*Turn, error) {
	if asked.TurnID == "" {
		asked.TurnID = newID()
	}
	if err := c.checkHooks(); err != nil {
		return nil, err
	}
	request, err := runRequest(asked)
	if err != nil {
		return nil, err
	}
	feed := newTurnFeed()
	if asked.OwnRPC {
		source := c.rpcTurn(feed, newTurnReader(asked.TurnID, 0, 0), asked.SessionID, request.GetView(), request.GetOnSuspend())
		source.request = request
		return c.begin(ctx, source)
	}
	if err := c.mux.run(request, feed); err != nil {
		return nil, err
	}
	turn := &Turn{id: asked.TurnID, feed: feed, source: &muxTurn{
		c.background, c.shared, c.mux, asked.TurnID, asked.SessionID,
	}}
	turn.bind(ctx)
	return turn, nil
}

// RunTurnToEnd is RunTurn and Wait in one.
func (c *Client) RunTurnToEnd(ctx context.Context, asked TurnRequest) (*TurnResult, error) {
	turn, err := c.RunTurn(ctx, asked)
	if err != nil {
		return nil, err
	}
	return turn.Wait()
}

// AttachTurn takes up a turn that this or another process began. When ctx is done before the turn has
// ended, the turn is cancelled; Detach leaves it alone.
//
// Reading it fails with ErrNotFound if there is no such turn.
func (c *Client) AttachTurn(ctx context.Context, asked AttachRequest) (*Turn, error) {
	reader := newTurnReader(asked.TurnID, asked.Epoch, asked.AfterSequence)
	view := viewOf(asked.Results, asked.Output, asked.NoProgress, "")
	return c.begin(ctx, c.rpcTurn(newTurnFeed(), reader, asked.SessionID, view, onSuspendOf(asked.EndOnSuspend)))
}

func (c *Client) rpcTurn(
	feed *turnFeed, reader *turnReader, sessionID string, view *pb.TurnView, onSuspend pb.OnSuspend,
) *rpcTurn {
	return &rpcTurn{
		background: c.background, shared: c.shared, feed: feed, reader: reader, waits: newWaits(c.options.backoff),
		giveUpAfter: c.options.reconnectTimeout, sessionID: sessionID, view: view, onSuspend: onSuspend,
	}
}

func (c *Client) begin(ctx context.Context, source *rpcTurn) (*Turn, error) {
	turn := &Turn{id: source.reader.turnID, feed: source.feed, source: source}
	if err := source.start(); err != nil {
		return nil, err
	}
	turn.bind(ctx)
	return turn, nil
}

type turnRPC[Request, Response any] func(pb.TurnServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error)

func turnMethod[Request, Response any](
	method turnRPC[Request, Response],
) func(*grpc.ClientConn) func(context.Context, Request, ...grpc.CallOption) (Response, error) {
	return func(conn *grpc.ClientConn) func(context.Context, Request, ...grpc.CallOption) (Response, error) {
		return func(ctx context.Context, request Request, options ...grpc.CallOption) (Response, error) {
			return method(pb.NewTurnServiceClient(conn), ctx, request, options...)
		}
	}
}

// CancelRequest says what to cancel and how. What is empty is meant as a whole.
type CancelRequest struct {
	// SessionID is needed for a run, and elsewhere only by who may see several turns of that id.
	SessionID string
	RunID     string
	TurnID    string
	CallID    string
	// Reason is for the executors and the record.
	Reason string
	// Grace is how long executing calls may take to stop. Zero: 5 s; below zero: not at all.
	Grace time.Duration
}

func (r CancelRequest) graceMs() *uint32 {
	var span uint32
	switch {
	case r.Grace == 0:
		return nil
	case r.Grace > 0:
		span = milliseconds(r.Grace)
	}
	return &span
}

// CancelTurn cancels a turn and ends its run. Returns where it stands once that is durable; empty: it
// was not seen yet, and the cancellation is remembered for a minute.
func (c *Client) CancelTurn(ctx context.Context, what CancelRequest) (TurnState, error) {
	answer, err := ask(ctx, c.shared, turnMethod(pb.TurnServiceClient.CancelTurn), &pb.CancelTurnRequest{
		TurnId: what.TurnID, SessionId: what.SessionID, Reason: validText(what.Reason), GraceMs: what.graceMs(),
	})
	return turnStateOf(answer.GetState()), err
}

// CancelCall cancels one call, which gets a `tool_cancelled` result. The turn goes on.
func (c *Client) CancelCall(ctx context.Context, what CancelRequest) (CallState, error) {
	answer, err := ask(ctx, c.shared, turnMethod(pb.TurnServiceClient.CancelCall), &pb.CancelCallRequest{
		TurnId: what.TurnID, SessionId: what.SessionID, CallId: what.CallID, Reason: validText(what.Reason),
		GraceMs: what.graceMs(),
	})
	return callStateOf(answer.GetState()), err
}

// CancelRun cancels a run with all its turns.
func (c *Client) CancelRun(ctx context.Context, what CancelRequest) (Run, error) {
	answer, err := ask(ctx, c.shared, turnMethod(pb.TurnServiceClient.CancelRun), &pb.CancelRunRequest{
		SessionId: what.SessionID, RunId: what.RunID, Reason: validText(what.Reason), GraceMs: what.graceMs(),
	})
	return runOf(answer.GetRun()), err
}

// EndRun completes a run. Fails with ErrConflict while a turn of it runs.
func (c *Client) EndRun(ctx context.Context, sessionID, runID string) (Run, error) {
	answer, err := ask(ctx, c.shared, turnMethod(pb.TurnServiceClient.EndRun),
		&pb.EndRunRequest{SessionId: sessionID, RunId: runID})
	return runOf(answer.GetRun()), err
}

// GetRun is one run. An empty id is the session's default run.
func (c *Client) GetRun(ctx context.Context, sessionID, runID string) (Run, error) {
	answer, err := ask(ctx, c.shared, turnMethod(pb.TurnServiceClient.GetRun),
		&pb.GetRunRequest{SessionId: sessionID, RunId: runID})
	return runOf(answer.GetRun()), err
}

// GetTurn is one turn with the state of its calls. sessionID may be empty.
func (c *Client) GetTurn(ctx context.Context, sessionID, turnID string) (*TurnInfo, error) {
	answer, err := ask(ctx, c.shared, turnMethod(pb.TurnServiceClient.GetTurn),
		&pb.GetTurnRequest{TurnId: turnID, SessionId: sessionID})
	if err != nil {
		return nil, err
	}
	return turnInfoOf(answer.GetTurn()), nil
}

// TurnFilter says which turns. All given conditions must hold.
type TurnFilter struct {
	SessionID string
	RunID     string
	State     TurnState
	// PageSize: zero is 50. PageToken is from the answer before.
	PageSize  uint32
	PageToken string
}

// ListTurns is a page of turns, newest first, and the token of the next page; empty: the last.
func (c *Client) ListTurns(ctx context.Context, wanted TurnFilter) ([]*TurnInfo, string, error) {
	answer, err := ask(ctx, c.shared, turnMethod(pb.TurnServiceClient.ListTurns), &pb.ListTurnsRequest{
		SessionId: wanted.SessionID, RunId: wanted.RunID, State: enumNumber(pb.TurnState(0), wanted.State),
		PageSize: wanted.PageSize, PageToken: wanted.PageToken,
	})
	var turns []*TurnInfo
	for _, item := range answer.GetTurns() {
		turns = append(turns, turnInfoOf(item))
	}
	return turns, answer.GetNextPageToken(), err
}

// GetCallResult is one result whole, also if it was cut in the turn's. sessionID may be empty.
func (c *Client) GetCallResult(ctx context.Context, sessionID, turnID, callID string) (*CallResult, error) {
	answer, err := ask(ctx, c.shared, turnMethod(pb.TurnServiceClient.GetCallResult),
		&pb.GetCallResultRequest{TurnId: turnID, SessionId: sessionID, CallId: callID})
	if err != nil {
		return nil, err
	}
	return callResultOf(answer.GetResult()), nil
}

// A HealthState is an answer of grpc.health.v1.
type HealthState string

// The answers of grpc.health.v1.
const (
	HealthUnknown  HealthState = "unknown"
	Serving        HealthState = "serving"
	NotServing     HealthState = "not_serving"
	ServiceUnknown HealthState = "service_unknown"
)

// Health asks grpc.health.v1 of the sidecar about "", liveness, readiness or a service's name.
func (c *Client) Health(ctx context.Context, service string) (HealthState, error) {
	answer, err := ask(ctx, c.shared, func(conn *grpc.ClientConn) func(
		context.Context, *healthpb.HealthCheckRequest, ...grpc.CallOption,
	) (*healthpb.HealthCheckResponse, error) {
		return healthpb.NewHealthClient(conn).Check
	}, &healthpb.HealthCheckRequest{Service: service})
	if errors.Is(err, ErrNotFound) {
		return ServiceUnknown, nil
	}
	if err != nil {
		return HealthUnknown, err
	}
	switch answer.GetStatus() {
	case healthpb.HealthCheckResponse_SERVING:
		return Serving, nil
	case healthpb.HealthCheckResponse_NOT_SERVING:
		return NotServing, nil
	case healthpb.HealthCheckResponse_SERVICE_UNKNOWN:
		return ServiceUnknown, nil
	}
	return HealthUnknown, nil
}

// Sessions are the sidecar's sessions, with the rights of an orchestrator.
func (c *Client) Sessions() *Sessions { return &Sessions{c.shared} }
