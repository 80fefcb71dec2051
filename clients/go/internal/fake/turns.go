// The orchestrator half of the fake sidecar: turns, their events, and cancellation.

package fake

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"callgate.invalid/clients/go/internal/pb"
)

const outputCredit = 64 * 1024

// TurnRecord is one turn and its calls.
type TurnRecord struct {
	Request *pb.RunTurnRequest
	Calls   []*TurnCall
	// Items are all events in order, those that are not kept included.
	Items     []*pb.TurnEvent
	sequence  uint64
	Cancelled bool
	Completed *pb.TurnCompleted
	suspended bool
}

// TurnCall is one call of a turn. Execution is nil before it was sent.
type TurnCall struct {
	Call      *pb.ToolCall
	State     pb.CallState
	Approval  *ApprovalRecord
	Execution *Execution
	Cancelled bool
	progress  int
	output    int
	result    *pb.CallResult
}

// Turns speaks TurnService. Its fields are read and written under the lock of the state.
type Turns struct {
	pb.UnimplementedTurnServiceServer
	*State
	executors *Executors
	approvals *Approvals
	Turns     map[string]*TurnRecord
	// Refuse ends every RunTurn with this. Nil: none.
	Refuse error
	// Cancels are the requests that came.
	Cancels []*pb.CancelTurnRequest
	streams map[chan struct{}]bool
	running sync.WaitGroup
	ctx     context.Context
}

func newTurns(ctx context.Context, state *State, executors *Executors, approvals *Approvals) *Turns {
	return &Turns{
		State: state, executors: executors, approvals: approvals, ctx: ctx,
		Turns: map[string]*TurnRecord{}, streams: map[chan struct{}]bool{},
	}
}

// DropStreams breaks every stream of turns, as a lost connection would. The turns go on.
func (t *Turns) DropStreams() {
	t.Do(func() {
		for dropped := range t.streams {
			close(dropped)
		}
		clear(t.streams)
	})
}

// Forget loses every turn, as a process that ends before it has sent anything.
func (t *Turns) Forget() { t.Do(func() { clear(t.Turns) }) }

func (t *Turns) opened() (dropped chan struct{}, closed func()) {
	dropped = make(chan struct{})
	t.Do(func() { t.streams[dropped] = true })
	return dropped, func() { t.Do(func() { delete(t.streams, dropped) }) }
}

// begin runs a turn, or finds it. Under the lock.
func (t *Turns) begin(request *pb.RunTurnRequest) (*TurnRecord, error) {
	if t.Refuse != nil {
		return nil, t.Refuse
	}
	if known := t.Turns[request.GetTurnId()]; known != nil {
		return known, nil
	}
	made := &TurnRecord{Request: request}
	accepted := &pb.TurnAccepted{SessionId: request.GetSessionId(), RunId: request.GetRunId(), BatchId: newID(), Round: 1}
	for _, call := range request.GetCalls() {
		made.Calls = append(made.Calls, &TurnCall{Call: call, State: pb.CallState_CALL_STATE_VALIDATING})
		accepted.Calls = append(accepted.Calls, &pb.AcceptedCall{CallId: call.GetCallId(), Tool: call.GetName()})
	}
	t.Turns[request.GetTurnId()] = made
	made.keep(&pb.TurnEvent{Body: &pb.TurnEvent_TurnAccepted{TurnAccepted: accepted}})
	t.running.Go(func() { t.run(made) })
	return made, nil
}

func (r *TurnRecord) keep(event *pb.TurnEvent) {
	r.sequence++
	event.Sequence, event.OccurredAtMs = r.sequence, nowMs()
	r.Items = append(r.Items, event)
}

// run carries a turn to its end, in steps under the lock.
func (t *Turns) run(turn *TurnRecord) {
	t.Until(t.ctx, func() bool {
		for before := -1; before != len(turn.Items) && turn.Completed == nil; {
			before = len(turn.Items)
			for _, call := range turn.Calls {
				t.step(turn, call)
			}
			t.finish(turn)
			t.touch()
		}
		return turn.Completed != nil
	})
}

// step moves one call as far as it goes now.
func (t *Turns) step(turn *TurnRecord, call *TurnCall) {
	if call.result != nil {
		return
	}
	stop := turn.Cancelled || call.Cancelled
	if call.Execution != nil {
		t.follow(turn, call)
		return
	}
	if stop {
		t.end(turn, call, cancelledResult(call))
		return
	}
	if risk, asked := t.approvals.Ask[call.Call.GetName()]; asked && call.Approval == nil {
		call.Approval = t.approvals.add(turn, call, risk)
		call.move(turn, pb.CallState_CALL_STATE_AWAITING_APPROVAL, "")
		turn.keep(&pb.TurnEvent{Body: &pb.TurnEvent_ApprovalRequired{ApprovalRequired: &pb.ApprovalRequired{
			Approvals: []*pb.ApprovalSummary{{
				ApprovalId: call.Approval.Message.GetApprovalId(), CallId: call.Call.GetCallId(),
				Tool: call.Call.GetName(), RiskLevel: risk,
			}},
		}}})
	}
	arguments := call.Call.GetArgumentsJson()
	if call.Approval != nil {
		decided := call.Approval.Message.GetDecision()
		if decided == nil {
			return
		}
		if result := decidedResult(turn, call, decided, call.Approval.response); result != nil {
			t.end(turn, call, result)
			return
		}
		if edited := decided.GetEditedArgumentsJson(); len(edited) > 0 {
			arguments = edited
		}
	}
	instance := t.executors.Owner(call.Call.GetName())
	if instance == nil {
		t.end(turn, call, failedResult(call, "tool_not_found", "there is no such tool"))
		return
	}
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	call.move(turn, pb.CallState_CALL_STATE_SCHEDULED, "")
	call.Execution = t.executors.Dispatch(instance, &pb.ExecuteRequest{
		ToolName: call.Call.GetName(), CallId: call.Call.GetCallId(), ArgumentsJson: arguments, TimeoutMs: 120_000,
		OutputCreditBytes: outputCredit,
		Context: &pb.CallContext{
			SessionId: turn.Request.GetSessionId(), RunId: turn.Request.GetRunId(), TurnId: turn.Request.GetTurnId(),
			BatchCallId: "batch", Services: instance.Tools[call.Call.GetName()].GetServices(),
			State: &pb.SessionState{SchemaVersion: 1, SessionId: turn.Request.GetSessionId(), MetadataJson: turn.Request.GetModelMessage()},
		},
	})
}

// follow tells what the executor says, and ends the call with its answer.
func (t *Turns) follow(turn *TurnRecord, call *TurnCall) {
	x := call.Execution
	if len(x.Accepted) > 0 && call.State == pb.CallState_CALL_STATE_SCHEDULED {
		call.move(turn, pb.CallState_CALL_STATE_EXECUTING, "")
	}
	for ; call.progress < len(x.Progress); call.progress++ {
		report := x.Progress[call.progress]
		turn.Items = append(turn.Items, &pb.TurnEvent{Body: &pb.TurnEvent_CallProgress{CallProgress: &pb.CallProgress{
			CallId: call.Call.GetCallId(), Message: report.GetMessage(), Fraction: report.Fraction, DetailsJson: report.GetDetailsJson(),
		}}})
	}
	for ; call.output < len(x.Output); call.output++ {
		chunk := x.Output[call.output]
		if turn.Request.GetView().GetIncludeOutput() {
			turn.Items = append(turn.Items, &pb.TurnEvent{Body: &pb.TurnEvent_CallOutput{CallOutput: &pb.CallOutput{
				CallId: call.Call.GetCallId(), Channel: chunk.GetChannel(), ChunkSequence: chunk.GetChunkSequence(),
				Data: chunk.GetData(), DroppedBytes: chunk.GetDroppedBytes(),
			}}})
		}
	}
	if x.Done() {
		if call.State == pb.CallState_CALL_STATE_SCHEDULED {
			call.move(turn, pb.CallState_CALL_STATE_EXECUTING, "")
		}
		t.end(turn, call, executedResult(call))
	}
}

func (c *TurnCall) move(turn *TurnRecord, state pb.CallState, code string) {
	turn.keep(&pb.TurnEvent{Body: &pb.TurnEvent_CallStateChanged{CallStateChanged: &pb.CallStateChanged{
		CallId: c.Call.GetCallId(), State: state, PreviousState: c.State, Code: code,
	}}})
	c.State = state
}

func (t *Turns) end(turn *TurnRecord, call *TurnCall, result *pb.CallResult) {
	call.result = result
	state := pb.CallState_CALL_STATE_SUCCESS
	switch result.GetOutcome() {
	case pb.CallOutcome_CALL_OUTCOME_ERROR:
		state = pb.CallState_CALL_STATE_ERROR
	case pb.CallOutcome_CALL_OUTCOME_CANCELLED:
		state = pb.CallState_CALL_STATE_CANCELLED
	}
	call.move(turn, state, result.GetError().GetCode())
	turn.keep(&pb.TurnEvent{Body: &pb.TurnEvent_CallCompleted{CallCompleted: &pb.CallCompleted{Result: result}}})
}

// finish completes the turn, or says that only people are awaited.
func (t *Turns) finish(turn *TurnRecord) {
	var results []*pb.CallResult
	var awaited []string
	open, stop := 0, false
	for _, call := range turn.Calls {
		switch {
		case call.result != nil:
			results = append(results, call.result)
			stop = stop || call.result.GetStopFlag()
		case call.Approval != nil && call.Execution == nil:
			awaited = append(awaited, call.Approval.Message.GetApprovalId())
		default:
			open++
		}
	}
	if open > 0 {
		return
	}
	if len(awaited) > 0 {
		if !turn.suspended {
			turn.suspended = true
			turn.keep(&pb.TurnEvent{Body: &pb.TurnEvent_TurnSuspended{TurnSuspended: &pb.TurnSuspended{ApprovalIds: awaited}}})
		}
		return
	}
	run := &pb.Run{RunId: turn.Request.GetRunId(), SessionId: turn.Request.GetSessionId(), State: pb.RunState_RUN_STATE_ACTIVE, Rounds: 1}
	turn.Completed = &pb.TurnCompleted{Outcome: pb.TurnOutcome_TURN_OUTCOME_COMPLETED, Results: results, Run: run}
	if stop {
		run.State = pb.RunState_RUN_STATE_COMPLETED
		turn.Completed.Stop, turn.Completed.StopReason = true, pb.StopReason_STOP_REASON_TOOL
	}
	if turn.Cancelled {
		run.State = pb.RunState_RUN_STATE_CANCELLED
		turn.Completed = &pb.TurnCompleted{
			Outcome: pb.TurnOutcome_TURN_OUTCOME_CANCELLED, Stop: true, StopReason: pb.StopReason_STOP_REASON_RUN_ENDED, Run: run,
			ClosingResults: &pb.ClosingResults{HistoryOnly: true, Results: results},
		}
	}
	turn.keep(&pb.TurnEvent{Body: &pb.TurnEvent_TurnCompleted{TurnCompleted: turn.Completed}})
}

// read sends what comes after a sequence, until the turn has ended or, if asked so, waits for people.
// False: the stream ended first.
func (t *Turns) read(ctx context.Context, turn *TurnRecord, after uint64, endOnSuspend bool, send func(*pb.TurnEvents) error) (bool, error) {
	at := 0
	for after > 0 && at < len(turn.Items) && turn.Items[at].GetSequence() <= after {
		at++
	}
	for {
		var events []*pb.TurnEvent
		over := false
		held := t.Until(ctx, func() bool {
			events = turn.Items[at:len(turn.Items):len(turn.Items)]
			over = turn.Completed != nil || (endOnSuspend && turn.isSuspended())
			return len(events) > 0 || over
		})
		if !held {
			return false, nil
		}
		at += len(events)
		if len(events) > 0 {
			if err := send(&pb.TurnEvents{TurnId: turn.Request.GetTurnId(), Epoch: 1, Events: events}); err != nil {
				return false, err
			}
		}
		if over {
			return true, nil
		}
	}
}

func (r *TurnRecord) isSuspended() bool {
	for at := len(r.Items) - 1; at >= 0; at-- {
		if r.Items[at].GetSequence() > 0 {
			return r.Items[at].GetTurnSuspended() != nil
		}
	}
	return false
}

// RunTurn runs one turn.
func (t *Turns) RunTurn(request *pb.RunTurnRequest, stream pb.TurnService_RunTurnServer) error {
	var turn *TurnRecord
	var err error
	t.Do(func() { turn, err = t.begin(request) })
	if err != nil {
		return err
	}
	return t.serve(stream.Context(), turn, 0, request.GetOnSuspend(), func(events *pb.TurnEvents) error {
		return stream.Send(&pb.RunTurnResponse{Turn: events})
	})
}

// AttachTurn takes a turn up.
func (t *Turns) AttachTurn(request *pb.AttachTurnRequest, stream pb.TurnService_AttachTurnServer) error {
	var turn *TurnRecord
	t.Do(func() { turn = t.Turns[request.GetTurnId()] })
	if turn == nil {
		return notFound("turn")
	}
	return t.serve(stream.Context(), turn, request.GetAfterSequence(), request.GetOnSuspend(), func(events *pb.TurnEvents) error {
		return stream.Send(&pb.AttachTurnResponse{Turn: events})
	})
}

func (t *Turns) serve(ctx context.Context, turn *TurnRecord, after uint64, onSuspend pb.OnSuspend, send func(*pb.TurnEvents) error) error {
	dropped, closed := t.opened()
	defer closed()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-dropped:
			cancel()
		case <-ctx.Done():
		}
	}()
	over, err := t.read(ctx, turn, after, onSuspend == pb.OnSuspend_ON_SUSPEND_END, send)
	if err == nil && !over {
		err = status.Error(codes.Unavailable, "dropped")
	}
	return err
}

// StreamTurns runs many turns over one stream.
func (t *Turns) StreamTurns(stream pb.TurnService_StreamTurnsServer) error {
	dropped, closed := t.opened()
	defer closed()
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	mux := &muxed{turns: t, stream: stream, ctx: ctx, readers: map[string]context.CancelFunc{}}
	read := make(chan error, 1)
	go func() { read <- mux.serve() }()
	select {
	case <-dropped:
		return status.Error(codes.Unavailable, "dropped")
	case err := <-read:
		return err
	}
}

// muxed is one StreamTurns.
type muxed struct {
	turns   *Turns
	stream  pb.TurnService_StreamTurnsServer
	ctx     context.Context
	sending sync.Mutex
	readers map[string]context.CancelFunc
}

func (m *muxed) send(message *pb.StreamTurnsResponse) error {
	m.sending.Lock()
	defer m.sending.Unlock()
	return m.stream.Send(message)
}

func (m *muxed) serve() error {
	for {
		message, err := m.stream.Recv()
		if err != nil {
			return nil
		}
		switch body := message.GetBody().(type) {
		case *pb.StreamTurnsRequest_Run:
			var turn *TurnRecord
			var refusal error
			m.turns.Do(func() { turn, refusal = m.turns.begin(body.Run) })
			m.read(body.Run.GetTurnId(), turn, refusal, 0, body.Run.GetOnSuspend())
		case *pb.StreamTurnsRequest_Attach:
			var turn *TurnRecord
			m.turns.Do(func() { turn = m.turns.Turns[body.Attach.GetTurnId()] })
			var refusal error
			if turn == nil {
				refusal = notFound("turn")
			}
			m.read(body.Attach.GetTurnId(), turn, refusal, body.Attach.GetAfterSequence(), body.Attach.GetOnSuspend())
		case *pb.StreamTurnsRequest_Detach:
			if cancel := m.readers[body.Detach.GetTurnId()]; cancel != nil {
				cancel()
			}
		}
	}
}

func (m *muxed) read(id string, turn *TurnRecord, refusal error, after uint64, onSuspend pb.OnSuspend) {
	if refusal != nil {
		_ = m.send(&pb.StreamTurnsResponse{Body: &pb.StreamTurnsResponse_Refused{Refused: &pb.TurnRefused{
			TurnId: id, Error: rpcError(refusal),
		}}})
		return
	}
	ctx, cancel := context.WithCancel(m.ctx)
	m.readers[id] = cancel
	m.turns.running.Go(func() {
		defer cancel()
		over, _ := m.turns.read(ctx, turn, after, onSuspend == pb.OnSuspend_ON_SUSPEND_END, func(events *pb.TurnEvents) error {
			return m.send(&pb.StreamTurnsResponse{Body: &pb.StreamTurnsResponse_Turn{Turn: events}})
		})
		completed := false
		m.turns.Do(func() { completed = turn.Completed != nil })
		if m.ctx.Err() == nil && (!over || !completed) {
			_ = m.send(&pb.StreamTurnsResponse{Body: &pb.StreamTurnsResponse_Detached{Detached: &pb.TurnDetached{TurnId: id}}})
		}
	})
}

// CancelTurn cancels a turn.
func (t *Turns) CancelTurn(_ context.Context, request *pb.CancelTurnRequest) (*pb.CancelTurnResponse, error) {
	state := pb.TurnState_TURN_STATE_UNSPECIFIED
	t.Do(func() {
		t.Cancels = append(t.Cancels, request)
		turn := t.Turns[request.GetTurnId()]
		if turn == nil {
			return
		}
		state, turn.Cancelled = pb.TurnState_TURN_STATE_RUNNING, true
		for _, call := range turn.Calls {
			if call.Execution != nil && call.result == nil {
				call.Execution.Cancel(pb.CancelReason_CANCEL_REASON_TURN_CANCELLED, request.GetReason(), 5*time.Second)
			}
		}
	})
	return &pb.CancelTurnResponse{State: state}, nil
}

// CancelCall cancels one call.
func (t *Turns) CancelCall(_ context.Context, request *pb.CancelCallRequest) (*pb.CancelCallResponse, error) {
	answer := (*pb.CancelCallResponse)(nil)
	t.Do(func() {
		turn := t.Turns[request.GetTurnId()]
		if turn == nil {
			return
		}
		for _, call := range turn.Calls {
			if call.Call.GetCallId() == request.GetCallId() {
				call.Cancelled = true
				answer = &pb.CancelCallResponse{State: call.State}
				if call.Execution != nil {
					call.Execution.Cancel(pb.CancelReason_CANCEL_REASON_CALL_CANCELLED, request.GetReason(), 5*time.Second)
				}
			}
		}
	})
	if answer == nil {
		return nil, notFound("call")
	}
	return answer, nil
}

// GetTurn shows one turn.
func (t *Turns) GetTurn(_ context.Context, request *pb.GetTurnRequest) (*pb.GetTurnResponse, error) {
	made := (*pb.Turn)(nil)
	t.Do(func() {
		turn := t.Turns[request.GetTurnId()]
		if turn == nil {
			return
		}
		made = &pb.Turn{
			TurnId: request.GetTurnId(), SessionId: turn.Request.GetSessionId(), RunId: turn.Request.GetRunId(),
			State: pb.TurnState_TURN_STATE_RUNNING, Epoch: 1, LastSequence: turn.sequence, Completed: turn.Completed,
			ModelMessage: turn.Request.GetModelMessage(),
		}
		if turn.Completed != nil {
			made.State = pb.TurnState_TURN_STATE_COMPLETED
		} else if turn.isSuspended() {
			made.State = pb.TurnState_TURN_STATE_SUSPENDED
		}
		for _, call := range turn.Calls {
			made.Calls = append(made.Calls, &pb.TurnCall{Call: call.Call, Tool: call.Call.GetName(), State: call.State})
		}
	})
	if made == nil {
		return nil, notFound("turn")
	}
	return &pb.GetTurnResponse{Turn: made}, nil
}
