// Approvals as an approver sees them: what waits, what can be chosen, what became of it.
//
// Plain data, and its way from and to the messages of the contract.

package callgate

import (
	"encoding/json"

	"callgate.invalid/clients/go/internal/pb"
)

// A Choice is what an approver can choose.
type Choice string

// What an approver can choose.
const (
	ChooseOnce       Choice = "once"
	ChooseSession    Choice = "session"
	ChooseDeny       Choice = "deny"
	ChooseEdit       Choice = "edit"
	ChooseRespond    Choice = "respond"
	ChooseCancelTurn Choice = "cancel_turn"
)

// An ApprovalState says where an approval stands.
type ApprovalState string

// Where an approval stands. All but pending are final; unknown is one that is newer than this package.
const (
	ApprovalPending    ApprovalState = "pending"
	ApprovalApproved   ApprovalState = "approved"
	ApprovalDenied     ApprovalState = "denied"
	ApprovalAnswered   ApprovalState = "answered"
	ApprovalExpired    ApprovalState = "expired"
	ApprovalCancelled  ApprovalState = "cancelled"
	ApprovalWithdrawn  ApprovalState = "withdrawn"
	ApprovalSuperseded ApprovalState = "superseded"
	ApprovalUnknown    ApprovalState = "unknown"
)

// ApprovalRef is what a decision needs of the approval that a person saw.
//
// Small enough to travel in a button or a link. The digest binds the decision to exactly these
// arguments, so keep it from what was shown; read anew, it would be that of something nobody has seen.
// An empty Etag takes the approval as it is by then.
type ApprovalRef struct {
	ApprovalID string
	Digest     []byte
	Etag       string
}

// Decision is a decision as it was recorded. An empty Choice: nobody chose; Verdict says which rule,
// mode or grant did.
type Decision struct {
	DecisionID string
	Choice     Choice
	// DecidedBy is the approver, a hook, or the sidecar; Surface what the approver used, by its own word.
	DecidedBy   string
	Surface     string
	DecidedAtMs uint64
	Message     string
	// EditedArguments are what it put in. Nil: unchanged.
	EditedArguments json.RawMessage
	Grants          []Grant
	Verdict         PermissionVerdict
}

// Approval is a call that waits for a decision, or had one.
type Approval struct {
	ApprovalID    string
	BatchID       string
	SessionID     string
	RootSessionID string
	RunID         string
	TurnID        string
	// CallID and ModelArguments are of the call as the model made it.
	CallID         string
	ModelArguments json.RawMessage
	Tool           string
	Owner          string
	ToolDigest     []byte
	Risk           Risk
	Kind           ToolKind
	// Arguments are those that would run.
	Arguments json.RawMessage
	// DisplayArguments are the same for people; characters that could mislead are written as escapes. Show
	// these, not the raw text.
	DisplayArguments string
	// ArgumentsCut: both are cut; Approvals.Get has them whole. Who has not seen the end should not
	// approve.
	ArgumentsCut bool
	// Digest is over everything that would run. A decision carries it.
	Digest []byte
	// Verdict is why it is asked; ToolReason the tool's own words, if its check asked.
	Verdict    PermissionVerdict
	ToolReason string
	Choices    []Choice
	// Candidates are what ChooseSession would store.
	Candidates []GrantCandidate
	// Deferred: a hook parked it.
	Deferred     bool
	HookContexts []HookText
	State        ApprovalState
	CreatedAtMs  uint64
	// ExpiresAtMs: zero is never.
	ExpiresAtMs uint64
	// Decision is nil while undecided.
	Decision *Decision
	// PendingInBatch counts how many of its batch still wait, this one included.
	PendingInBatch uint32
	// Mode is the session's when it began to wait.
	Mode Mode
	// CallOutcome is how the call ended. Empty: it has not.
	CallOutcome Outcome
	// Etag changes with every change.
	Etag string
}

// Pending says whether it waits.
func (a *Approval) Pending() bool { return a.State == ApprovalPending }

// Ref is what a decision needs of it.
func (a *Approval) Ref() ApprovalRef { return ApprovalRef{a.ApprovalID, a.Digest, a.Etag} }

// ApprovalUpdate is what a watch tells. Snapshot: these are all that wait, in place of whatever was held
// before; otherwise they are those that changed, as they are now. Cursor resumes behind this update.
type ApprovalUpdate struct {
	Approvals []*Approval
	Snapshot  bool
	Cursor    string
}

// ApprovalDecision is one decision, before it is taken.
type ApprovalDecision struct {
	Approval ApprovalRef
	Choice   Choice
	// Message is for the model and the record with ChooseDeny and ChooseCancelTurn, otherwise for the
	// record.
	Message string
	// CandidateIDs, with ChooseSession, are candidates of the approval, one per undecided segment. None is
	// enough if there is one in all.
	CandidateIDs []string
	// Arguments, with ChooseEdit, are the whole new arguments, as JSON text or as a value.
	Arguments any
	// Response, with ChooseRespond, is the call's result, anything that a handler could return.
	Response any
	// DecisionID makes a repeat known as one. Empty: minted by Decide, and written here.
	DecisionID string
}

// message fails with ErrDefinition if a field is missing, of another choice, or cannot be sent.
func (d *ApprovalDecision) message() (*pb.ApprovalDecision, error) {
	made := &pb.ApprovalDecision{
		ApprovalId:        d.Approval.ApprovalID,
		DecisionId:        d.DecisionID,
		ApprovalDigest:    d.Approval.Digest,
		Etag:              d.Approval.Etag,
		Choice:            enumNumber(pb.ApprovalChoice(0), d.Choice),
		Message:           validText(d.Message),
		GrantCandidateIds: d.CandidateIDs,
	}
	switch {
	case made.Choice == 0:
		return nil, newError(ErrDefinition, "there is no such choice: "+string(d.Choice))
	case len(d.CandidateIDs) > 0 && d.Choice != ChooseSession:
		return nil, newError(ErrDefinition, "candidates belong to `session`, not to `"+string(d.Choice)+"`")
	case (d.Arguments != nil) != (d.Choice == ChooseEdit):
		return nil, newError(ErrDefinition, "arguments belong to `edit`, and it needs them")
	case d.Response != nil && d.Choice != ChooseRespond:
		return nil, newError(ErrDefinition, "a response belongs to `respond`, not to `"+string(d.Choice)+"`")
	}
	var err error
	if made.EditedArgumentsJson, err = textOrJSON(d.Arguments); err != nil {
		return nil, newError(ErrDefinition, "the arguments are no JSON: "+err.Error())
	}
	if d.Choice == ChooseRespond {
		answer := seal(resultOf(d.Response))
		// An approver must never answer with an error by accident.
		if answer.message.GetIsError() && !isFailure(d.Response) {
			return nil, newError(ErrDefinition, answer.message.GetError().GetMessageForModel())
		}
		made.Response = answer.message
	}
	return made, nil
}

func isFailure(response any) bool {
	switch response := response.(type) {
	case *Result:
		return response != nil && response.IsError
	case Result:
		return response.IsError
	}
	return false
}

// A DecisionStatus says what became of a decision.
type DecisionStatus string

// What became of a decision. Taken: it holds. Repeated: the same was decided before. Conflict: decided
// otherwise before, or no longer pending. Refused: not taken for another reason, and nothing changed.
const (
	DecisionTaken    DecisionStatus = "taken"
	DecisionRepeated DecisionStatus = "repeated"
	DecisionConflict DecisionStatus = "conflict"
	DecisionRefused  DecisionStatus = "refused"
	DecisionUnknown  DecisionStatus = "unknown"
)

// DecisionOutcome is what became of one decision.
type DecisionOutcome struct {
	ApprovalID string
	Status     DecisionStatus
	// Approval is as it is now; for a conflict with the winner in Decision. Nil: it is unknown.
	Approval *Approval
	// Err is why it was not taken: ErrDecisionConflict or ErrDecisionRefused. Nil with taken and repeated.
	Err error
}

func decisionOutcomeOf(message *pb.DecisionOutcome) DecisionOutcome {
	made := DecisionOutcome{
		ApprovalID: message.GetApprovalId(),
		Status:     DecisionStatus(textOr(enumName(message.GetStatus(), ""), string(DecisionUnknown))),
	}
	if message.GetApproval() != nil {
		made.Approval = approvalOf(message.GetApproval())
	}
	if made.Status == DecisionTaken || made.Status == DecisionRepeated {
		return made
	}
	failure := errorFromMessage(message.GetError())
	failure.kind = ErrDecisionRefused
	if made.Status == DecisionConflict {
		failure.kind = ErrDecisionConflict
	}
	failure.Approval = made.Approval
	made.Err = failure
	return made
}

func approvalOf(message *pb.Approval) *Approval {
	call := message.GetCall()
	made := &Approval{
		ApprovalID:       message.GetApprovalId(),
		BatchID:          message.GetBatchId(),
		SessionID:        message.GetSessionId(),
		RootSessionID:    message.GetRootSessionId(),
		RunID:            message.GetRunId(),
		TurnID:           message.GetTurnId(),
		CallID:           call.GetCallId(),
		ModelArguments:   document(call.GetArgumentsJson()),
		Tool:             message.GetTool(),
		Owner:            message.GetOwner(),
		ToolDigest:       message.GetToolDigest(),
		Risk:             riskOf(message.GetRiskLevel()),
		Kind:             kindOf(message.GetKind()),
		Arguments:        document(message.GetEffectiveArgumentsJson()),
		DisplayArguments: message.GetDisplayArguments(),
		ArgumentsCut:     message.GetArgumentsCut(),
		Digest:           message.GetApprovalDigest(),
		Verdict:          verdictOf(message.GetVerdict()),
		ToolReason:       message.GetToolReason(),
		Deferred:         message.GetDeferred(),
		State:            ApprovalState(textOr(enumName(message.GetState(), ""), string(ApprovalUnknown))),
		CreatedAtMs:      message.GetCreatedAtMs(),
		ExpiresAtMs:      message.GetExpiresAtMs(),
		Decision:         decisionOf(message.GetDecision()),
		PendingInBatch:   message.GetPendingInBatch(),
		Mode:             modeOf(message.GetMode()),
		Etag:             message.GetEtag(),
	}
	if outcome := message.GetCallOutcome(); outcome != 0 {
		made.CallOutcome = outcomeName(outcome)
	}
	for _, choice := range message.GetAllowedChoices() {
		// One that is newer than this package cannot be chosen here.
		if name := enumName(choice, ""); name != "" {
			made.Choices = append(made.Choices, Choice(name))
		}
	}
	for _, item := range message.GetGrantCandidates() {
		made.Candidates = append(made.Candidates, candidateOf(item))
	}
	for _, item := range message.GetAdditionalContexts() {
		made.HookContexts = append(made.HookContexts, HookText{item.GetText(), item.GetHookId(), item.GetCallId(), ""})
	}
	return made
}

func decisionOf(message *pb.Decision) *Decision {
	if message == nil {
		return nil
	}
	return &Decision{
		DecisionID:      message.GetDecisionId(),
		Choice:          Choice(enumName(message.GetChoice(), "unknown")),
		DecidedBy:       message.GetDecidedBy(),
		Surface:         message.GetSurface(),
		DecidedAtMs:     message.GetDecidedAtMs(),
		Message:         message.GetMessage(),
		EditedArguments: document(message.GetEditedArgumentsJson()),
		Grants:          grantsOf(message.GetGrants()),
		Verdict:         verdictOf(message.GetVerdict()),
	}
}
