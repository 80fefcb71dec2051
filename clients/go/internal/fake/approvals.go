// Approvals of the fake sidecar: what it is told to ask for waits until somebody decides.

package fake

import (
	"context"
	"crypto/sha256"
	"slices"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"callgate.invalid/clients/go/internal/pb"
)

// ApprovalRecord is one approval.
type ApprovalRecord struct {
	Message  *pb.Approval
	response *pb.ToolResult
}

// Approvals speaks ApprovalService. Its fields are read and written under the lock of the state.
type Approvals struct {
	pb.UnimplementedApprovalServiceServer
	*State
	// Ask are the tools whose calls wait, with their risk.
	Ask   map[string]pb.RiskLevel
	Known []*ApprovalRecord
	// LoseAnswers loses so many answers to decisions that were taken.
	LoseAnswers int
	// log has every change; a cursor is a position in it.
	log     []*pb.Approval
	Expired string
	streams map[chan struct{}]bool
}

func newApprovals(state *State) *Approvals {
	return &Approvals{State: state, Ask: map[string]pb.RiskLevel{}, streams: map[chan struct{}]bool{}}
}

// DropStreams breaks every watch, as a lost connection would.
func (a *Approvals) DropStreams() {
	a.Do(func() {
		for dropped := range a.streams {
			close(dropped)
		}
		clear(a.streams)
	})
}

// Waiting are the undecided ones. Under the lock.
func (a *Approvals) Waiting() []*pb.Approval {
	var made []*pb.Approval
	for _, item := range a.Known {
		if item.Message.GetState() == pb.ApprovalState_APPROVAL_STATE_PENDING {
			made = append(made, item.Message)
		}
	}
	return made
}

func (a *Approvals) add(turn *TurnRecord, call *TurnCall, risk pb.RiskLevel) *ApprovalRecord {
	sum := sha256.Sum256(call.Call.GetArgumentsJson())
	made := &ApprovalRecord{Message: &pb.Approval{
		ApprovalId: newID(), SessionId: turn.Request.GetSessionId(), RootSessionId: turn.Request.GetSessionId(),
		TurnId: turn.Request.GetTurnId(), Call: call.Call, Tool: call.Call.GetName(), RiskLevel: risk,
		EffectiveArgumentsJson: call.Call.GetArgumentsJson(), DisplayArguments: string(call.Call.GetArgumentsJson()),
		ApprovalDigest: sum[:], State: pb.ApprovalState_APPROVAL_STATE_PENDING, CreatedAtMs: nowMs(), Etag: newID(),
		Mode: pb.Mode_MODE_DEFAULT, PendingInBatch: 1,
		AllowedChoices: []pb.ApprovalChoice{
			pb.ApprovalChoice_APPROVAL_CHOICE_ONCE, pb.ApprovalChoice_APPROVAL_CHOICE_DENY, pb.ApprovalChoice_APPROVAL_CHOICE_EDIT,
			pb.ApprovalChoice_APPROVAL_CHOICE_RESPOND, pb.ApprovalChoice_APPROVAL_CHOICE_CANCEL_TURN,
		},
	}}
	a.Known = append(a.Known, made)
	a.log = append(a.log, made.Message)
	return made
}

// ListApprovals lists what waits, one a page.
func (a *Approvals) ListApprovals(_ context.Context, request *pb.ListApprovalsRequest) (*pb.ListApprovalsResponse, error) {
	made := &pb.ListApprovalsResponse{}
	a.Do(func() {
		at, _ := strconv.Atoi(request.GetPageToken())
		if waiting := a.Waiting(); at < len(waiting) {
			made.Approvals = waiting[at : at+1]
			if at+1 < len(waiting) {
				made.NextPageToken = strconv.Itoa(at + 1)
			}
		}
	})
	return made, nil
}

// GetApproval shows one.
func (a *Approvals) GetApproval(_ context.Context, request *pb.GetApprovalRequest) (*pb.GetApprovalResponse, error) {
	found := (*ApprovalRecord)(nil)
	a.Do(func() { found = a.find(request.GetApprovalId()) })
	if found == nil {
		return nil, Refusal(codes.NotFound, pb.ErrorReason_ERROR_REASON_APPROVAL_NOT_FOUND, "approval_not_found")
	}
	return &pb.GetApprovalResponse{Approval: found.Message}, nil
}

func (a *Approvals) find(id string) *ApprovalRecord {
	at := slices.IndexFunc(a.Known, func(item *ApprovalRecord) bool { return item.Message.GetApprovalId() == id })
	if at < 0 {
		return nil
	}
	return a.Known[at]
}

// WatchApprovals tells what waits, one at a time, then every change.
func (a *Approvals) WatchApprovals(request *pb.WatchApprovalsRequest, stream pb.ApprovalService_WatchApprovalsServer) error {
	dropped := make(chan struct{})
	at, expired := 0, false
	var waiting []*pb.Approval
	a.Do(func() {
		a.streams[dropped] = true
		at = len(a.log)
		expired = request.GetAfterCursor() != "" && request.GetAfterCursor() == a.Expired
		waiting = a.Waiting()
	})
	defer a.Do(func() { delete(a.streams, dropped) })
	if expired {
		return Refusal(codes.OutOfRange, pb.ErrorReason_ERROR_REASON_CURSOR_EXPIRED, "cursor_expired")
	}
	if cursor := request.GetAfterCursor(); cursor != "" {
		at, _ = strconv.Atoi(cursor)
	} else {
		for _, item := range waiting {
			if err := stream.Send(&pb.WatchApprovalsResponse{Approvals: []*pb.Approval{item}}); err != nil {
				return err
			}
		}
		if err := stream.Send(&pb.WatchApprovalsResponse{SnapshotComplete: true, Cursor: strconv.Itoa(at)}); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	go func() {
		select {
		case <-dropped:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		var changes []*pb.Approval
		if !a.Until(ctx, func() bool { changes = slices.Clone(a.log[at:]); return len(changes) > 0 }) {
			return status.Error(codes.Unavailable, "dropped")
		}
		at += len(changes)
		if err := stream.Send(&pb.WatchApprovalsResponse{Approvals: changes, Cursor: strconv.Itoa(at)}); err != nil {
			return err
		}
	}
}

// DecideApprovals decides.
func (a *Approvals) DecideApprovals(_ context.Context, request *pb.DecideApprovalsRequest) (*pb.DecideApprovalsResponse, error) {
	made := &pb.DecideApprovalsResponse{}
	lose := false
	a.Do(func() {
		for _, decision := range request.GetDecisions() {
			made.Outcomes = append(made.Outcomes, a.decide(decision))
		}
		lose = a.LoseAnswers > 0
		if lose {
			a.LoseAnswers--
		}
	})
	if lose {
		return nil, status.Error(codes.Unavailable, "the answer was lost")
	}
	return made, nil
}

func (a *Approvals) decide(decision *pb.ApprovalDecision) *pb.DecisionOutcome {
	made := &pb.DecisionOutcome{ApprovalId: decision.GetApprovalId()}
	found := a.find(decision.GetApprovalId())
	if found == nil {
		made.Status = pb.DecisionStatus_DECISION_STATUS_REFUSED
		made.Error = rpcError(Refusal(codes.NotFound, pb.ErrorReason_ERROR_REASON_APPROVAL_NOT_FOUND, "approval_not_found"))
		return made
	}
	made.Approval = found.Message
	if decided := found.Message.GetDecision(); decided != nil {
		made.Status = pb.DecisionStatus_DECISION_STATUS_REPEATED
		// Texts aside, the same answer is the same decision.
		if decided.GetChoice() != decision.GetChoice() ||
			!slices.Equal(decided.GetEditedArgumentsJson(), decision.GetEditedArgumentsJson()) ||
			!proto.Equal(found.response, decision.GetResponse()) {
			made.Status = pb.DecisionStatus_DECISION_STATUS_CONFLICT
			made.Error = rpcError(Refusal(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_APPROVAL_ALREADY_DECIDED, "approval_already_decided"))
		}
		return made
	}
	if !slices.Equal(decision.GetApprovalDigest(), found.Message.GetApprovalDigest()) {
		made.Status = pb.DecisionStatus_DECISION_STATUS_REFUSED
		made.Error = rpcError(Refusal(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_APPROVAL_DIGEST_MISMATCH, "approval_digest_mismatch"))
		return made
	}
	made.Status = pb.DecisionStatus_DECISION_STATUS_TAKEN
	made.Approval = a.settle(found, decision)
	return made
}

func (a *Approvals) settle(found *ApprovalRecord, decision *pb.ApprovalDecision) *pb.Approval {
	state := pb.ApprovalState_APPROVAL_STATE_APPROVED
	switch decision.GetChoice() {
	case pb.ApprovalChoice_APPROVAL_CHOICE_DENY:
		state = pb.ApprovalState_APPROVAL_STATE_DENIED
	case pb.ApprovalChoice_APPROVAL_CHOICE_RESPOND:
		state = pb.ApprovalState_APPROVAL_STATE_ANSWERED
	case pb.ApprovalChoice_APPROVAL_CHOICE_CANCEL_TURN:
		state = pb.ApprovalState_APPROVAL_STATE_CANCELLED
	}
	// A message that was sent must not change under whoever encodes it.
	before := found.Message
	found.response = decision.GetResponse()
	found.Message = &pb.Approval{
		ApprovalId: before.GetApprovalId(), SessionId: before.GetSessionId(), RootSessionId: before.GetRootSessionId(),
		TurnId: before.GetTurnId(), Call: before.GetCall(), Tool: before.GetTool(), RiskLevel: before.GetRiskLevel(),
		EffectiveArgumentsJson: before.GetEffectiveArgumentsJson(), DisplayArguments: before.GetDisplayArguments(),
		ApprovalDigest: before.GetApprovalDigest(), State: state, CreatedAtMs: before.GetCreatedAtMs(), Etag: newID(),
		Decision: &pb.Decision{
			DecisionId: decision.GetDecisionId(), Choice: decision.GetChoice(), DecidedBy: "approver", DecidedAtMs: nowMs(),
			Message: decision.GetMessage(), EditedArgumentsJson: decision.GetEditedArgumentsJson(),
		},
	}
	a.log = append(a.log, found.Message)
	return found.Message
}
