//go:build real

// Approvals, sessions and what tools say themselves.

package real

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	callgate "callgate.invalid/clients/go"
)

// office has a tool that asks in default mode, and one that does not.
type office struct {
	*callgate.Client
	approvals *callgate.Approvals
	mu        sync.Mutex
	sent      []string
}

type note struct {
	To string `json:"to"`
}

func newOffice(t *testing.T, s *sidecar) *office {
	t.Helper()
	made := &office{approvals: s.approver(t)}
	made.Client = s.executor(t, "office", []*callgate.Definition{
		callgate.Tool("send_note", "Sends a note.", func(_ context.Context, in note) (string, error) {
			made.note(in.To)
			return "sent to " + in.To, nil
		}, callgate.WithRisk(callgate.Sensitive), callgate.WithKind(callgate.KindOther)),
		callgate.Tool("read_note", "Reads a note.", func(context.Context, struct{}) (string, error) {
			made.note("read")
			return "a note", nil
		}, callgate.WithRisk(callgate.Safe), callgate.WithKind(callgate.KindRead)),
	})
	return made
}

func (o *office) note(what string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, what)
}

func (o *office) notes() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	sent := slices.Clone(o.sent)
	slices.Sort(sent)
	return strings.Join(sent, " ")
}

func send(id, to string) callgate.ToolCall { return call(id, "send_note", note{to}) }

// pending are the approvals of a turn, in call order, as soon as so many wait.
func (o *office) pending(t *testing.T, turnID string, count int) []*callgate.Approval {
	t.Helper()
	watch, err := o.approvals.Watch(callgate.ApprovalFilter{TurnID: turnID}, "")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]*callgate.Approval{}
	for update, err := range watch.Updates(within(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if update.Snapshot {
			clear(known)
		}
		var waiting []*callgate.Approval
		for _, item := range update.Approvals {
			known[item.ApprovalID] = item
		}
		for _, item := range known {
			if item.Pending() {
				waiting = append(waiting, item)
			}
		}
		if len(waiting) >= count {
			slices.SortFunc(waiting, func(a, b *callgate.Approval) int { return strings.Compare(a.CallID, b.CallID) })
			return waiting
		}
	}
	t.Fatal("the watch ended")
	return nil
}

func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func TestBatchIsFrozenUntilItsCallIsApprovedOnce(t *testing.T) {
	o := newOffice(t, shared)
	turn := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-once"), Calls: []callgate.ToolCall{send("n", "ann"), call("r", "read_note", nil)}})
	var states []callgate.CallState
	var approval *callgate.Approval
	for event, err := range turn.Events() {
		if err != nil {
			t.Fatal(err)
		}
		switch event := event.(type) {
		case callgate.ApprovalRequired:
			equal(t, "call", event.Approvals[0].CallID, "n")
			equal(t, "risk", event.Approvals[0].Risk, callgate.Sensitive)
		case callgate.CallStateChanged:
			if event.CallID == "n" {
				states = append(states, event.State)
			}
		case callgate.TurnSuspended:
			equal(t, "sent", o.notes(), "")
			info := must[*callgate.TurnInfo](t)(o.GetTurn(within(t), "", turn.ID()))
			equal(t, "turn", info.State, callgate.TurnStateSuspended)
			for item, err := range o.approvals.List(within(t), callgate.ApprovalFilter{SessionID: id(t, "go-once")}) {
				approval = must[*callgate.Approval](t)(item, err)
			}
			equal(t, "id", event.ApprovalIDs[0], approval.ApprovalID)
			outcome, err := o.approvals.ApproveOnce(within(t), approval.Ref(), "")
			if err != nil || outcome.Status != callgate.DecisionTaken {
				t.Fatal(err)
			}
		}
	}
	result := end(t, turn)
	equal(t, "arguments", string(approval.Arguments), `{"to":"ann"}`)
	equal(t, "owner", approval.Owner, "office")
	equal(t, "mode", approval.Mode, callgate.ModeDefault)
	equal(t, "stage", approval.Verdict.Stage, "mode_default")
	equal(t, "sent", o.notes(), "ann read")
	equal(t, "approval", result.Call("n").ApprovalID, approval.ApprovalID)
	if !slices.Equal(states, []callgate.CallState{"awaiting_approval", "scheduled", "executing", "success"}) {
		t.Errorf("%v", states)
	}
	decided := must[*callgate.Approval](t)(o.approvals.Get(within(t), approval.ApprovalID))
	equal(t, "choice", decided.Decision.Choice, callgate.ChooseOnce)
	equal(t, "outcome", decided.CallOutcome, callgate.OutcomeSuccess)
}

func TestDenialReachesTheModelAndEndsTheBatch(t *testing.T) {
	o := newOffice(t, shared)
	turn := begin(t, o.Client, callgate.TurnRequest{
		SessionID: id(t, "go-deny"), TurnID: id(t, "go-deny-1"), Calls: []callgate.ToolCall{send("a", "ann"), send("b", "bob"), call("r", "read_note", nil)},
	})
	waiting := o.pending(t, id(t, "go-deny-1"), 2)
	must[callgate.DecisionOutcome](t)(o.approvals.Deny(within(t), waiting[0].Ref(), "not on a Sunday"))
	result := end(t, turn)
	again := must[callgate.DecisionOutcome](t)(o.approvals.Deny(within(t), waiting[0].Ref(), ""))
	equal(t, "again", again.Status, callgate.DecisionRepeated)
	_, err := o.approvals.ApproveOnce(within(t), waiting[0].Ref(), "")
	var late *callgate.Error
	if !errors.Is(err, callgate.ErrDecisionConflict) || !errors.As(err, &late) {
		t.Fatalf("%v", err)
	}
	equal(t, "code", late.Code, "approval_already_decided")
	equal(t, "winner", late.Approval.Decision.Message, "not on a Sunday")
	var codes []string
	for _, item := range result.Results {
		codes = append(codes, code(item)+" "+item.NotExecutedReason)
	}
	if !slices.Equal(codes, []string{"tool_denied_by_user denied_by_user", "tool_batch_rejected batch_rejected", "tool_batch_rejected batch_rejected"}) {
		t.Errorf("%v", codes)
	}
	if !strings.Contains(result.Call("a").Error.Message, "not on a Sunday") || !errors.Is(result.Call("a").Err(), callgate.ErrPermissionDenied) {
		t.Errorf("%v", result.Call("a").Err())
	}
	equal(t, "sent", o.notes(), "")
}

func TestSessionGrantLetsTheNextCallRunUntilItIsRevoked(t *testing.T) {
	o := newOffice(t, shared)
	ctx := within(t)
	first := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-grant"), TurnID: id(t, "go-grant-1"), Calls: []callgate.ToolCall{send("n", "ann")}})
	approval := o.pending(t, id(t, "go-grant-1"), 1)[0]
	must[callgate.DecisionOutcome](t)(o.approvals.ApproveSession(ctx, approval.Ref(), "", approval.Candidates[0].CandidateID))
	end(t, first)
	unasked := run(t, o.Client, id(t, "go-grant"), send("m", "bob"))
	equal(t, "unasked", unasked.Call("m").ApprovalID, "")
	var grants []callgate.Grant
	for grant, err := range o.approvals.Sessions().Grants(ctx, id(t, "go-grant"), "active") {
		grants = append(grants, must[callgate.Grant](t)(grant, err))
	}
	if len(grants) != 1 || grants[0].Tool != "send_note" || grants[0].ApprovalID != approval.ApprovalID {
		t.Fatalf("%+v", grants)
	}
	revoked := must[*callgate.RevokedGrants](t)(o.approvals.Sessions().Revoke(ctx, id(t, "go-grant"), grants[0].GrantID))
	equal(t, "revoked", revoked.Grants[0].State, "revoked")
	again := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-grant"), TurnID: id(t, "go-grant-2"), Calls: []callgate.ToolCall{send("n", "eve")}})
	must[callgate.DecisionOutcome](t)(o.approvals.Deny(ctx, o.pending(t, id(t, "go-grant-2"), 1)[0].Ref(), ""))
	equal(t, "again", end(t, again).Call("n").IsError, true)
	equal(t, "sent", o.notes(), "ann bob")
}

func TestEditedArgumentsAreCheckedAndRun(t *testing.T) {
	o := newOffice(t, shared)
	turn := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-edit"), TurnID: id(t, "go-edit-1"), Calls: []callgate.ToolCall{send("n", "ann")}})
	approval := o.pending(t, id(t, "go-edit-1"), 1)[0]
	_, err := o.approvals.Edit(within(t), approval.Ref(), map[string]int{"to": 5}, "")
	var refused *callgate.Error
	if !errors.Is(err, callgate.ErrDecisionRefused) || !errors.As(err, &refused) || refused.Code != "approval_edit_invalid" {
		t.Fatalf("%v", err)
	}
	must[callgate.DecisionOutcome](t)(o.approvals.Edit(within(t), approval.Ref(), `{"to":"eve"}`, ""))
	equal(t, "text", end(t, turn).Call("n").Text(), "sent to eve")
	info := must[*callgate.TurnInfo](t)(o.GetTurn(within(t), "", id(t, "go-edit-1")))
	equal(t, "effective", string(info.Calls[0].EffectiveArguments), `{"to":"eve"}`)
}

func TestAnswerOfAnApproverIsTheResult(t *testing.T) {
	o := newOffice(t, shared)
	turn := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-respond"), TurnID: id(t, "go-respond-1"), Calls: []callgate.ToolCall{send("n", "ann")}})
	must[callgate.DecisionOutcome](t)(o.approvals.Respond(within(t), o.pending(t, id(t, "go-respond-1"), 1)[0].Ref(), map[string]string{"sent": "by hand"}, ""))
	found := end(t, turn).Call("n")
	equal(t, "structured", string(found.Structured), `{"sent":"by hand"}`)
	equal(t, "reason", found.NotExecutedReason, "answered_by_approver")
	equal(t, "effect", found.Effect, callgate.EffectNotExecuted)
	equal(t, "sent", o.notes(), "")
}

func TestApproverCancelsTheTurn(t *testing.T) {
	o := newOffice(t, shared)
	turn := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-acancel"), TurnID: id(t, "go-acancel-1"), Calls: []callgate.ToolCall{send("n", "ann")}})
	must[callgate.DecisionOutcome](t)(o.approvals.CancelTurn(within(t), o.pending(t, id(t, "go-acancel-1"), 1)[0].Ref(), "wrong direction"))
	result := end(t, turn)
	equal(t, "outcome", result.Outcome, callgate.TurnOutcomeCancelled)
	equal(t, "closing", result.ClosingResults[0].Outcome, callgate.OutcomeCancelled)
}

func TestDecisionForSomethingElseIsRefused(t *testing.T) {
	o := newOffice(t, shared)
	turn := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-digest"), TurnID: id(t, "go-digest-1"), Calls: []callgate.ToolCall{send("n", "ann")}})
	approval := o.pending(t, id(t, "go-digest-1"), 1)[0]
	wrong := approval.Ref()
	wrong.Digest = make([]byte, 32)
	outcomes := must[[]callgate.DecisionOutcome](t)(o.approvals.Decide(within(t),
		&callgate.ApprovalDecision{Approval: wrong, Choice: callgate.ChooseOnce},
		&callgate.ApprovalDecision{Approval: callgate.ApprovalRef{ApprovalID: "no-such", Digest: wrong.Digest}, Choice: callgate.ChooseOnce}))
	var codes []string
	for _, outcome := range outcomes {
		var refused *callgate.Error
		if !errors.Is(outcome.Err, callgate.ErrDecisionRefused) || !errors.As(outcome.Err, &refused) {
			t.Fatalf("%+v", outcome)
		}
		codes = append(codes, refused.Code)
	}
	if !slices.Equal(codes, []string{"approval_digest_mismatch", "approval_not_found"}) {
		t.Errorf("%v", codes)
	}
	must[callgate.DecisionOutcome](t)(o.approvals.Deny(within(t), approval.Ref(), ""))
	end(t, turn)
}

func TestSuspendedTurnEndsHereAndIsTakenUp(t *testing.T) {
	o := newOffice(t, shared)
	for _, ownRPC := range []bool{false, true} {
		turnID := id(t, map[bool]string{false: "go-suspend-1", true: "go-suspend-2"}[ownRPC])
		turn := begin(t, o.Client, callgate.TurnRequest{
			SessionID: id(t, "go-suspend"), TurnID: turnID, EndOnSuspend: true, OwnRPC: ownRPC, Calls: []callgate.ToolCall{send("n", "ann")},
		})
		_, err := turn.Wait()
		var suspended *callgate.Error
		if !errors.Is(err, callgate.ErrSuspended) || !errors.As(err, &suspended) || suspended.TurnID != turnID {
			t.Fatalf("%v", err)
		}
		approval := must[*callgate.Approval](t)(o.approvals.Get(within(t), suspended.ApprovalIDs[0]))
		must[callgate.DecisionOutcome](t)(o.approvals.ApproveOnce(within(t), approval.Ref(), ""))
		attached := must[*callgate.Turn](t)(o.AttachTurn(within(t), callgate.AttachRequest{TurnID: turnID}))
		equal(t, "text", end(t, attached).Call("n").Text(), "sent to ann")
	}
}

func TestApprovalsAndWatchSurviveAKilledSidecar(t *testing.T) {
	mine := own(t)
	o := newOffice(t, mine)
	turn := begin(t, o.Client, callgate.TurnRequest{SessionID: "kill", TurnID: "kill-1", Calls: []callgate.ToolCall{send("n", "ann")}})
	approval := o.pending(t, "kill-1", 1)[0]
	watch := must[*callgate.ApprovalWatch](t)(o.approvals.Watch(callgate.ApprovalFilter{}, ""))
	defer watch.Close()
	first := must[*callgate.ApprovalUpdate](t)(watch.Next(within(t)))
	equal(t, "first", first.Snapshot && first.Approvals[0].ApprovalID == approval.ApprovalID, true)
	mine.restart(t, syscall.SIGKILL)
	must[callgate.DecisionOutcome](t)(o.approvals.ApproveOnce(within(t), approval.Ref(), ""))
	for decided := false; !decided; {
		update := must[*callgate.ApprovalUpdate](t)(watch.Next(within(t)))
		for _, item := range update.Approvals {
			decided = decided || item.State == callgate.ApprovalApproved
		}
		// After the restart the cursor may be too old; then a snapshot says that nothing waits.
		decided = decided || (update.Snapshot && len(update.Approvals) == 0)
	}
	equal(t, "text", end(t, turn).Call("n").Text(), "sent to ann")
	equal(t, "sent", o.notes(), "ann")
}

func TestSessionsAreMadeChangedForkedAndClosed(t *testing.T) {
	o := newOffice(t, shared)
	ctx := within(t)
	cwd := "/srv"
	session := must[*callgate.Session](t)(o.Sessions().Create(ctx, id(t, "go-session"), callgate.SessionSettings{Mode: callgate.ModePlan, Cwd: &cwd}))
	equal(t, "mode", session.Settings.Mode, callgate.ModePlan)
	equal(t, "cwd", *session.Settings.Cwd, "/srv")
	child := must[*callgate.Session](t)(o.Sessions().Fork(ctx, id(t, "go-session"), "", callgate.SessionSettings{}, true))
	equal(t, "parent", child.ParentSessionID, id(t, "go-session"))
	turn := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-session"), TurnID: id(t, "go-session-1"), Calls: []callgate.ToolCall{send("n", "ann")}})
	equal(t, "denied by mode", code(end(t, turn).Call("n")), "tool_denied_by_mode")
	update := must[*callgate.SessionUpdate](t)(o.approvals.Sessions().SetMode(ctx, id(t, "go-session"), session.Etag, callgate.ModeDefault))
	waiting := begin(t, o.Client, callgate.TurnRequest{SessionID: id(t, "go-session"), TurnID: id(t, "go-session-2"), Calls: []callgate.ToolCall{send("n", "ann")}})
	o.pending(t, id(t, "go-session-2"), 1)
	freed := must[*callgate.SessionUpdate](t)(o.approvals.Sessions().SetMode(ctx, id(t, "go-session"), "", callgate.ModeAuto))
	equal(t, "released", freed.Released, 1)
	equal(t, "text", end(t, waiting).Call("n").Text(), "sent to ann")
	if _, err := o.approvals.Sessions().SetMode(ctx, id(t, "go-session"), update.Session.Etag, callgate.ModePlan); !errors.Is(err, callgate.ErrConflict) {
		t.Errorf("%v", err)
	}
	must[*callgate.Session](t)(o.Sessions().Close(ctx, id(t, "go-session"), "done"))
	found := map[string]bool{}
	for item, err := range o.Sessions().List(ctx, id(t, "go-session"), true) {
		found[must[*callgate.Session](t)(item, err).SessionID] = item.ClosedAtMs > 0
	}
	equal(t, "closed", found[id(t, "go-session")] && found[child.SessionID], true)
}

func withRules(t *testing.T, s *sidecar, rules map[string][]string) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"permissions": rules})
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(s.folder, "c", "callgate")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "settings.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	s.restart(t, syscall.SIGTERM)
}

func TestALinkDoesNotLeadOutOfAnAllowedFolder(t *testing.T) {
	mine := own(t)
	inside, outside := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{inside + "/a": "allowed", outside + "/b": "denied"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside+"/b", inside+"/link"); err != nil {
		t.Fatal(err)
	}
	withRules(t, mine, map[string][]string{"allow": {"read_file(/" + inside + "/**)"}, "deny": {"read_file(/" + outside + "/**)"}})
	type path struct {
		Path string `json:"path"`
	}
	executor := mine.executor(t, "files", []*callgate.Definition{
		callgate.Tool("read_file", "Reads.", func(_ context.Context, in path) (string, error) {
			text, err := os.ReadFile(in.Path)
			return string(text), err
		}, callgate.WithRisk(callgate.Sensitive), callgate.WithKind(callgate.KindRead),
			callgate.WithSubject(callgate.Subject{Pointer: "/path", Type: callgate.SubjectPath})),
	})
	result := end(t, begin(t, executor, callgate.TurnRequest{
		SessionID: "s", BatchPolicy: callgate.FreezePartial, EndOnSuspend: true,
		Calls: []callgate.ToolCall{call("a", "read_file", path{inside + "/a"}), call("l", "read_file", path{inside + "/link"})},
	}))
	equal(t, "inside", result.Call("a").Text(), "allowed")
	equal(t, "link", code(result.Call("l")), "tool_denied_by_rule")
}

func TestWhatAToolSaysOfACallHolds(t *testing.T) {
	type amount struct {
		Amount int `json:"amount"`
	}
	executor := shared.executor(t, "spending", []*callgate.Definition{
		callgate.Tool("spend", "Spends.", func(_ context.Context, in amount) (int, error) { return in.Amount, nil },
			callgate.WithRisk(callgate.Safe), callgate.WithKind(callgate.KindOther),
			callgate.WithPermissionCheck(func(_ context.Context, in amount, asked callgate.PermissionContext) (callgate.Permission, error) {
				switch {
				case in.Amount > 10:
					return callgate.Deny("at most 10"), nil
				case asked.Mode != callgate.ModeDefault || asked.ToolName != "spend":
					return callgate.Permission{}, errors.New("not what was asked")
				}
				return callgate.Passthrough(), nil
			})),
	})
	result := run(t, executor, id(t, "go-spend"), call("cheap", "spend", amount{10}), call("dear", "spend", amount{11}))
	equal(t, "cheap", result.Call("cheap").Text(), "10")
	equal(t, "dear", code(result.Call("dear")), "tool_denied_by_tool")
	equal(t, "message", result.Call("dear").Error.Message, "at most 10")
	equal(t, "reason", result.Call("dear").NotExecutedReason, "denied_by_tool")
}
