// The approver: sees what waits, and decides it. Never decides anything by itself.

package callgate

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc"

	"callgate.invalid/clients/go/internal/pb"
)

const decisionsMax = 100

// Approvals is an approver's connection to the sidecar. For any goroutine. Nothing is connected before
// it is used.
type Approvals struct {
	options *options
	shared  *sharedConn
	ctx     context.Context
	stop    context.CancelFunc
	closing sync.Once
}

// NewApprovals makes one. Without an endpoint it is at the control.sock beside the sidecar's socket;
// over TCP it needs the credential of an approver. Fails if the endpoint is none.
func NewApprovals(given ...Option) (*Approvals, error) {
	options := newOptions(given)
	where, err := resolveControlEndpoint(options.endpoint, options.env)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Approvals{
		options: options, shared: &sharedConn{dialer: options.dialer(where), timeout: options.requestTimeout},
		ctx: ctx, stop: stop,
	}, nil
}

// Close ends every watch and disconnects. May be called twice. What waits, waits on.
func (a *Approvals) Close() error {
	a.closing.Do(func() {
		a.stop()
		a.shared.close()
	})
	return nil
}

// Sessions are the sidecar's sessions, with the rights of an approver.
func (a *Approvals) Sessions() *Sessions { return &Sessions{a.shared} }

// ApprovalFilter says which approvals. All given conditions must hold.
type ApprovalFilter struct {
	// RootSessionIDs: of these sessions and their child sessions.
	RootSessionIDs []string
	// SessionID: of this session alone.
	SessionID string
	TurnID    string
	// States: none is pending. Any other needs SessionID or TurnID.
	States []ApprovalState
	// MinRisk: at least this risk.
	MinRisk Risk
	// Tools are names or globs.
	Tools []string
}

func (f ApprovalFilter) message() (*pb.ApprovalFilter, error) {
	made := &pb.ApprovalFilter{
		RootSessionIds: f.RootSessionIDs, SessionId: f.SessionID, TurnId: f.TurnID, Tools: f.Tools,
		MinRiskLevel: enumNumber(pb.RiskLevel(0), f.MinRisk),
	}
	if f.MinRisk != "" && made.MinRiskLevel == 0 {
		return nil, invalid("there is no risk %q", f.MinRisk)
	}
	for _, state := range f.States {
		number := enumNumber(pb.ApprovalState(0), state)
		if number == 0 {
			return nil, invalid("there is no state of approvals %q", state)
		}
		made.States = append(made.States, number)
	}
	return made, nil
}

type approvalRPC[Request, Response any] func(pb.ApprovalServiceClient, context.Context, Request, ...grpc.CallOption) (Response, error)

func askApprovals[Request, Response any](
	ctx context.Context, a *Approvals, method approvalRPC[Request, Response], request Request,
) (Response, error) {
	return ask(ctx, a.shared, func(conn *grpc.ClientConn) func(context.Context, Request, ...grpc.CallOption) (Response, error) {
		return func(ctx context.Context, request Request, options ...grpc.CallOption) (Response, error) {
			return method(pb.NewApprovalServiceClient(conn), ctx, request, options...)
		}
	}, request)
}

// List are approvals, oldest first, page by page. Long arguments are cut.
func (a *Approvals) List(ctx context.Context, filter ApprovalFilter) iter.Seq2[*Approval, error] {
	wanted, broken := filter.message()
	return pages(func(token string) ([]*Approval, string, error) {
		if broken != nil {
			return nil, "", broken
		}
		answer, err := askApprovals(ctx, a, pb.ApprovalServiceClient.ListApprovals,
			&pb.ListApprovalsRequest{Filter: wanted, PageToken: token})
		return approvalsOf(answer.GetApprovals()), answer.GetNextPageToken(), err
	})
}

func approvalsOf(messages []*pb.Approval) []*Approval {
	made := make([]*Approval, 0, len(messages))
	for _, item := range messages {
		made = append(made, approvalOf(item))
	}
	return made
}

// Get is one approval, whole. Fails with ErrNotFound.
func (a *Approvals) Get(ctx context.Context, approvalID string) (*Approval, error) {
	answer, err := askApprovals(ctx, a, pb.ApprovalServiceClient.GetApproval,
		&pb.GetApprovalRequest{ApprovalId: approvalID})
	if err != nil {
		return nil, err
	}
	return approvalOf(answer.GetApproval()), nil
}

// ApproveOnce lets the call run, this once, with exactly the arguments that the approval shows.
//
// This and the other decisions return taken or repeated, once that is durable; a lost answer is asked
// for again, as the same decision. They fail with ErrDecisionConflict, which has the winner, with
// ErrDecisionRefused, and with ErrConnectionLost, where it may have been taken.
func (a *Approvals) ApproveOnce(ctx context.Context, approval ApprovalRef, message string) (DecisionOutcome, error) {
	return a.decideOne(ctx, &ApprovalDecision{Approval: approval, Choice: ChooseOnce, Message: message})
}

// ApproveSession lets the call run, and stores the picked candidates for the session, one per segment;
// none is enough if there is one in all.
func (a *Approvals) ApproveSession(
	ctx context.Context, approval ApprovalRef, message string, candidateIDs ...string,
) (DecisionOutcome, error) {
	return a.decideOne(ctx, &ApprovalDecision{
		Approval: approval, Choice: ChooseSession, Message: message, CandidateIDs: candidateIDs,
	})
}

// Deny does not let the call run; the model reads the message, and the turn goes on.
func (a *Approvals) Deny(ctx context.Context, approval ApprovalRef, message string) (DecisionOutcome, error) {
	return a.decideOne(ctx, &ApprovalDecision{Approval: approval, Choice: ChooseDeny, Message: message})
}

// Edit lets the call run with other arguments, this once. They are the whole of them, and checked again:
// if they do not pass, that is ErrDecisionRefused with `approval_edit_invalid`, and the approval waits on.
func (a *Approvals) Edit(ctx context.Context, approval ApprovalRef, arguments any, message string) (DecisionOutcome, error) {
	return a.decideOne(ctx, &ApprovalDecision{
		Approval: approval, Choice: ChooseEdit, Message: message, Arguments: arguments,
	})
}

// Respond does not let the call run; the value is its result, anything that a handler could return.
func (a *Approvals) Respond(ctx context.Context, approval ApprovalRef, result any, message string) (DecisionOutcome, error) {
	return a.decideOne(ctx, &ApprovalDecision{
		Approval: approval, Choice: ChooseRespond, Message: message, Response: result,
	})
}

// CancelTurn cancels the whole turn, and with it its run.
func (a *Approvals) CancelTurn(ctx context.Context, approval ApprovalRef, message string) (DecisionOutcome, error) {
	return a.decideOne(ctx, &ApprovalDecision{Approval: approval, Choice: ChooseCancelTurn, Message: message})
}

func (a *Approvals) decideOne(ctx context.Context, decision *ApprovalDecision) (DecisionOutcome, error) {
	outcomes, err := a.Decide(ctx, decision)
	if err != nil {
		return DecisionOutcome{}, err
	}
	return outcomes[0], outcomes[0].Err
}

// Decide takes several decisions, each on its own, and returns an outcome for each, in order. One that
// fails changes nothing and does not touch the others; its outcome has the error.
//
// Fails with ErrConnectionLost if no answer came for the time of WithReconnectTimeout: any of them may
// have been taken, and sent again, the same decisions are known as the same.
func (a *Approvals) Decide(ctx context.Context, decisions ...*ApprovalDecision) ([]DecisionOutcome, error) {
	messages := make([]*pb.ApprovalDecision, 0, len(decisions))
	seen := map[string]bool{}
	for _, decision := range decisions {
		if seen[decision.Approval.ApprovalID] {
			return nil, newError(ErrDefinition, "two decisions are about one approval")
		}
		seen[decision.Approval.ApprovalID] = true
		if decision.DecisionID == "" {
			decision.DecisionID = newID()
		}
		message, err := decision.message()
		if err != nil {
			return nil, err
		}
		messages = append(messages, message)
	}
	var outcomes []DecisionOutcome
	for len(messages) > 0 {
		count := min(len(messages), decisionsMax)
		some, err := a.decideSome(ctx, messages[:count])
		if err != nil {
			return outcomes, err
		}
		outcomes, messages = append(outcomes, some...), messages[count:]
	}
	return outcomes, nil
}

// decideSome sends the same decisions until there is an answer. The answer may be lost while the
// decision is taken; its id makes a repeat harmless.
func (a *Approvals) decideSome(ctx context.Context, messages []*pb.ApprovalDecision) ([]DecisionOutcome, error) {
	waits := newWaits(a.options.backoff)
	began := time.Now()
	for {
		answer, err := askApprovals(ctx, a, pb.ApprovalServiceClient.DecideApprovals,
			&pb.DecideApprovalsRequest{Decisions: messages})
		if err == nil {
			if len(answer.GetOutcomes()) != len(messages) {
				return nil, newError(ErrProtocol,
					fmt.Sprintf("%d decisions have %d outcomes", len(messages), len(answer.GetOutcomes())))
			}
			var outcomes []DecisionOutcome
			for _, item := range answer.GetOutcomes() {
				outcomes = append(outcomes, decisionOutcomeOf(item))
			}
			return outcomes, nil
		}
		failure := errorFromGRPC(err)
		wait := max(waits.lost(), failure.RetryAfter)
		if ctx.Err() != nil || !failure.isAny(ErrConnectionLost, ErrDeadlineExceeded, ErrUnavailable) ||
			time.Since(began)+wait >= a.options.reconnectTimeout {
			return nil, failure
		}
		a.options.log.Info("a decision is sent again", "error", failure)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, contextError(ctx)
		}
	}
}
