// Where the reading of one turn stands. Survives every stream.

package callgate

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"callgate.invalid/clients/go/internal/pb"
)

const requestBytesMax = 4 * 1024 * 1024

// isTransient says whether another try may help; everything else is the answer.
func isTransient(failure *Error) bool {
	return failure.isAny(ErrConnectionLost, ErrUnavailable, ErrLimitExceeded, ErrSuperseded)
}

// tooLargeRequest is what is wrong with a request that no sidecar takes; nil: nothing. Found here,
// because on a shared stream it would end the turns of others, again and again.
func tooLargeRequest(request *pb.RunTurnRequest) error {
	size := proto.Size(request)
	if size <= requestBytesMax {
		return nil
	}
	made := newError(ErrLimitExceeded, fmt.Sprintf("the turn has %d bytes, at most %d are allowed", size, requestBytesMax))
	made.Limit = &LimitViolation{"message_bytes_max", requestBytesMax, uint64(size)}
	return made
}

// turnReader passes no event on twice. For one goroutine at a time.
type turnReader struct {
	turnID       string
	epoch        uint32
	lastSequence uint64
	accepted     bool
	completed    bool
	// Whether only people are awaited, and for which approvals.
	isAwaiting bool
	awaited    []string
}

func newTurnReader(turnID string, epoch uint32, afterSequence uint64) *turnReader {
	return &turnReader{
		turnID: turnID, epoch: epoch, lastSequence: afterSequence, accepted: afterSequence > 0 || epoch > 0,
	}
}

// take is the events that were not seen yet.
func (r *turnReader) take(message *pb.TurnEvents) []TurnEvent {
	if r.epoch > 0 && message.GetEpoch() < r.epoch {
		return nil
	}
	if message.GetEpoch() != r.epoch {
		if r.epoch > 0 {
			r.lastSequence = 0
		}
		r.epoch = message.GetEpoch()
	}
	r.accepted = true
	var events []TurnEvent
	snapshot := message.GetSnapshot()
	if snapshot != nil {
		events = append(events, r.takeSnapshot(snapshot))
	}
	for _, item := range message.GetEvents() {
		if sequence := item.GetSequence(); sequence > 0 {
			if sequence <= r.lastSequence {
				continue
			}
			r.lastSequence = sequence
		}
		event := eventOf(r.turnID, r.epoch, item)
		if event != nil {
			events = append(events, event)
		}
		if item.GetSequence() > 0 {
			// Where the turn stands is what its last kept event says.
			suspended, isAwaiting := event.(TurnSuspended)
			r.isAwaiting, r.awaited = isAwaiting, suspended.ApprovalIDs
		}
		if _, isLast := event.(TurnCompleted); isLast {
			r.completed = true
		}
	}
	if completed := snapshot.GetCompleted(); completed != nil && !r.completed {
		// The end itself is among the events that are no longer kept.
		r.completed = true
		r.lastSequence = max(r.lastSequence, snapshot.GetLastSequence())
		info := EventInfo{r.turnID, r.epoch, r.lastSequence, snapshot.GetUpdatedAtMs()}
		events = append(events, TurnCompleted{info, turnResultOf(r.turnID, completed)})
	}
	return events
}

func (r *turnReader) takeSnapshot(snapshot *pb.Turn) TurnEvent {
	info := turnInfoOf(snapshot)
	r.isAwaiting, r.awaited = info.State == TurnStateSuspended, nil
	for _, call := range info.Calls {
		if call.State == CallAwaitingApproval {
			r.awaited = append(r.awaited, call.ApprovalID)
		}
	}
	return TurnSnapshot{EventInfo{r.turnID, r.epoch, 0, info.UpdatedAtMs}, info}
}

// startAgain forgets where the reader stands: the turn was lost with a process and begins anew.
//
// The sidecar records what must not run twice before it is sent, so a turn that it does not know has
// sent nothing of that kind.
func (r *turnReader) startAgain() {
	*r = turnReader{turnID: r.turnID}
}

// suspended is what a stream that ended means, if only people are awaited now.
func (r *turnReader) suspended() *Error {
	if !r.isAwaiting {
		return nil
	}
	made := newError(ErrSuspended, fmt.Sprintf("turn %+q waits for people; AttachTurn takes it up", r.turnID))
	made.TurnID, made.ApprovalIDs = r.turnID, r.awaited
	return made
}

// attachRequest takes the turn up where this reader stands.
func (r *turnReader) attachRequest(sessionID string, view *pb.TurnView, onSuspend pb.OnSuspend) *pb.AttachTurnRequest {
	return &pb.AttachTurnRequest{
		TurnId: r.turnID, SessionId: sessionID, Epoch: r.epoch, AfterSequence: r.lastSequence,
		View: view, OnSuspend: onSuspend,
	}
}
