// Approvers: decisions, lists, watches, and turns that wait.

package callgate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/internal/pb"
)

// desk has a tool that asks, and an approver.
type desk struct {
	*side
	client    *callgate.Client
	approvals *callgate.Approvals
}

func newDesk(t *testing.T, given ...callgate.Option) *desk {
	t.Helper()
	s := newSide(t)
	s.Approvals.Ask["echo"] = pb.RiskLevel_RISK_LEVEL_SENSITIVE
	client := s.executor([]*callgate.Definition{callgate.Tool("echo", "Gives it back.",
		func(_ context.Context, in map[string]any) (map[string]any, error) { return in, nil }, callgate.WithRisk(callgate.Safe))})
	approvals, err := callgate.NewApprovals(s.options(given...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = approvals.Close() })
	return &desk{s, client, approvals}
}

// ask begins a turn whose call waits.
func (d *desk) ask(id string) (*callgate.Turn, *callgate.Approval) {
	d.t.Helper()
	turn := begin(d.t, d.client, callgate.TurnRequest{TurnID: id, Calls: []callgate.ToolCall{{CallID: "c0", Name: "echo", Arguments: `{"a":1}`}}})
	var waiting string
	d.until(func() bool {
		for _, item := range d.Sidecar.Approvals.Waiting() {
			if item.GetTurnId() == id {
				waiting = item.GetApprovalId()
			}
		}
		return waiting != ""
	})
	found, err := d.approvals.Get(patient(d.t), waiting)
	if err != nil {
		d.t.Fatal(err)
	}
	return turn, found
}

func TestEveryDecisionDoesWhatItSays(t *testing.T) {
	d := newDesk(t)
	ctx := patient(t)
	for _, c := range []struct {
		name   string
		decide func(callgate.ApprovalRef) (callgate.DecisionOutcome, error)
		text   string
		code   string
	}{
		{"once", func(r callgate.ApprovalRef) (callgate.DecisionOutcome, error) {
			return d.approvals.ApproveOnce(ctx, r, "")
		}, `{"a":1}`, ""},
		{"session", func(r callgate.ApprovalRef) (callgate.DecisionOutcome, error) {
			return d.approvals.ApproveSession(ctx, r, "", "g1")
		}, `{"a":1}`, ""},
		{"deny", func(r callgate.ApprovalRef) (callgate.DecisionOutcome, error) { return d.approvals.Deny(ctx, r, "no") }, "no", "tool_denied_by_user"},
		{"edit", func(r callgate.ApprovalRef) (callgate.DecisionOutcome, error) {
			return d.approvals.Edit(ctx, r, map[string]int{"a": 2}, "")
		}, `{"a":2}`, ""},
		{"respond", func(r callgate.ApprovalRef) (callgate.DecisionOutcome, error) {
			return d.approvals.Respond(ctx, r, "by hand", "")
		}, "by hand", ""},
		{"error", func(r callgate.ApprovalRef) (callgate.DecisionOutcome, error) {
			return d.approvals.Respond(ctx, r, &callgate.Result{IsError: true, Contents: []callgate.Part{callgate.Text("none left")}}, "")
		}, "none left", ""},
		{"cancel", func(r callgate.ApprovalRef) (callgate.DecisionOutcome, error) {
			return d.approvals.CancelTurn(ctx, r, "")
		}, "cancelled", "tool_cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn, approval := d.ask(c.name)
			outcome, err := c.decide(approval.Ref())
			if err != nil || outcome.Status != callgate.DecisionTaken {
				t.Fatalf("%+v, %v", outcome, err)
			}
			found := end(t, turn).Call("c0")
			equal(t, "text", found.Text(), c.text)
			equal(t, "approval", found.ApprovalID, approval.ApprovalID)
			if c.code != "" {
				equal(t, "code", found.Error.Code, c.code)
			}
			equal(t, "error", found.IsError, c.code != "" || c.name == "error")
		})
	}
}

func TestLostAnswerIsAskedForAgainAsTheSameDecision(t *testing.T) {
	d := newDesk(t)
	turn, approval := d.ask("lost")
	d.Do(func() { d.Sidecar.Approvals.LoseAnswers = 2 })
	outcome, err := d.approvals.ApproveOnce(patient(t), approval.Ref(), "")
	if err != nil || outcome.Status != callgate.DecisionRepeated {
		t.Errorf("%+v, %v", outcome, err)
	}
	end(t, turn)
}

func TestSecondDecisionGetsTheWinnerAndAWrongDigestChangesNothing(t *testing.T) {
	d := newDesk(t)
	turn, approval := d.ask("two")
	wrong := approval.Ref()
	wrong.Digest = []byte("another")
	_, err := d.approvals.ApproveOnce(patient(t), wrong, "")
	equal(t, "digest", isKind(t, err, callgate.ErrDecisionRefused).Code, "approval_digest_mismatch")
	if _, err := d.approvals.Deny(patient(t), approval.Ref(), "no"); err != nil {
		t.Fatal(err)
	}
	_, err = d.approvals.ApproveOnce(patient(t), approval.Ref(), "")
	late := isKind(t, err, callgate.ErrDecisionConflict)
	equal(t, "winner", late.Approval.Decision.Choice, callgate.ChooseDeny)
	isKind(t, err, callgate.ErrConflict)
	end(t, turn)
}

func TestSameChoiceWithAnotherAnswerIsAConflict(t *testing.T) {
	d := newDesk(t)
	turn, approval := d.ask("edited")
	for at, wanted := range []callgate.DecisionStatus{callgate.DecisionTaken, callgate.DecisionRepeated, callgate.DecisionConflict} {
		outcomes, err := d.approvals.Decide(patient(t), &callgate.ApprovalDecision{
			Approval: approval.Ref(), Choice: callgate.ChooseEdit, Arguments: map[string]int{"a": at / 2}, Message: fmt.Sprint(at),
		})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "status", outcomes[0].Status, wanted)
	}
	end(t, turn)
}

func TestSeveralDecisionsStandOnTheirOwnAndGoInPieces(t *testing.T) {
	d := newDesk(t)
	var decisions []*callgate.ApprovalDecision
	for at := range 101 {
		decisions = append(decisions, &callgate.ApprovalDecision{
			Approval: callgate.ApprovalRef{ApprovalID: fmt.Sprint("none-", at)}, Choice: callgate.ChooseOnce,
		})
	}
	turn, approval := d.ask("last")
	decisions[100] = &callgate.ApprovalDecision{Approval: approval.Ref(), Choice: callgate.ChooseOnce}
	outcomes, err := d.approvals.Decide(patient(t), decisions...)
	if err != nil || len(outcomes) != 101 {
		t.Fatalf("%d, %v", len(outcomes), err)
	}
	isKind(t, outcomes[99].Err, callgate.ErrDecisionRefused)
	equal(t, "last", outcomes[100].Status, callgate.DecisionTaken)
	equal(t, "ids", decisions[0].DecisionID != "" && decisions[0].DecisionID != decisions[1].DecisionID, true)
	end(t, turn)
}

func TestDecisionThatMakesNoSenseIsRefusedWhereItIsMade(t *testing.T) {
	d := newDesk(t)
	ref := callgate.ApprovalRef{ApprovalID: "a"}
	for _, decision := range []*callgate.ApprovalDecision{
		{Approval: ref, Choice: "perhaps"},
		{Approval: ref, Choice: callgate.ChooseOnce, CandidateIDs: []string{"g"}},
		{Approval: ref, Choice: callgate.ChooseEdit},
		{Approval: ref, Choice: callgate.ChooseOnce, Arguments: "{}"},
		{Approval: ref, Choice: callgate.ChooseOnce, Response: "x"},
		{Approval: ref, Choice: callgate.ChooseRespond, Response: []byte("x")},
		{Approval: ref, Choice: callgate.ChooseEdit, Arguments: func() {}},
	} {
		_, err := d.approvals.Decide(patient(t), decision)
		isKind(t, err, callgate.ErrDefinition)
	}
	same := &callgate.ApprovalDecision{Approval: ref, Choice: callgate.ChooseOnce}
	_, err := d.approvals.Decide(patient(t), same, same)
	isKind(t, err, callgate.ErrDefinition)
}

func TestListWalksAllPages(t *testing.T) {
	d := newDesk(t)
	d.ask("one")
	d.ask("two")
	d.ask("three")
	found := ""
	for approval, err := range d.approvals.List(patient(t), callgate.ApprovalFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		found += approval.TurnID + " "
		var arguments map[string]int
		if err := json.Unmarshal(approval.Arguments, &arguments); err != nil || arguments["a"] != 1 {
			t.Errorf("%s", approval.Arguments)
		}
	}
	equal(t, "found", found, "one two three ")
	for _, filter := range []callgate.ApprovalFilter{{MinRisk: "perhaps"}, {States: []callgate.ApprovalState{"perhaps"}}} {
		for _, err := range d.approvals.List(patient(t), filter) {
			isKind(t, err, callgate.ErrInvalidRequest)
		}
	}
}

func next(t *testing.T, watch *callgate.ApprovalWatch) *callgate.ApprovalUpdate {
	t.Helper()
	update, err := watch.Next(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return update
}

func TestWatchTellsASnapshotThenChangesAndSurvivesLosses(t *testing.T) {
	d := newDesk(t)
	_, first := d.ask("one")
	d.ask("two")
	watch, err := d.approvals.Watch(callgate.ApprovalFilter{}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	snapshot := next(t, watch)
	equal(t, "snapshot", fmt.Sprint(snapshot.Snapshot, len(snapshot.Approvals)), "true 2")
	// A wait that ends early loses nothing.
	short, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = watch.Next(short)
	isKind(t, err, callgate.ErrDeadlineExceeded)
	if _, err := d.approvals.Deny(patient(t), first.Ref(), ""); err != nil {
		t.Fatal(err)
	}
	change := next(t, watch)
	equal(t, "change", fmt.Sprintf("%v %d %s", change.Snapshot, len(change.Approvals), change.Approvals[0].State), "false 1 denied")
	d.Sidecar.Approvals.DropStreams()
	d.ask("three")
	equal(t, "after a loss", next(t, watch).Approvals[0].TurnID, "three")
	d.Down()
	go d.Up()
	d.ask("four")
	equal(t, "after a restart", next(t, watch).Approvals[0].TurnID, "four")
	// Another process goes on behind what this one has received.
	other, err := d.approvals.Watch(callgate.ApprovalFilter{}, watch.Cursor())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	d.ask("five")
	equal(t, "another", next(t, other).Approvals[0].TurnID, "five")
	// A cursor that is too old begins anew.
	d.Do(func() { d.Sidecar.Approvals.Expired = other.Cursor() })
	d.Sidecar.Approvals.DropStreams()
	equal(t, "anew", next(t, other).Snapshot, true)
}

func TestWatchEndsWithItsContextItsApproverOrWhenTheSidecarStaysAway(t *testing.T) {
	d := newDesk(t, callgate.WithReconnectTimeout(30*time.Millisecond))
	watch, err := d.approvals.Watch(callgate.ApprovalFilter{}, "")
	if err != nil {
		t.Fatal(err)
	}
	next(t, watch)
	d.Down()
	_, err = watch.Next(patient(t))
	isKind(t, err, callgate.ErrConnectionLost)
	d.Up()
	waiting := make(chan error, 1)
	go func() {
		for _, err := range watch.Updates(patient(t)) {
			if err != nil {
				waiting <- err
			}
		}
	}()
	_ = d.approvals.Close()
	isKind(t, <-waiting, callgate.ErrClosed)
	_, err = d.approvals.Get(patient(t), "any")
	isKind(t, err, callgate.ErrClosed)
}

func TestSuspendedTurnEndsItsEventsAndIsTakenUpLater(t *testing.T) {
	for name, ownRPC := range carriers {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			turn := begin(t, d.client, callgate.TurnRequest{TurnID: "s", EndOnSuspend: true, OwnRPC: ownRPC, Calls: calls("echo")})
			var last callgate.TurnEvent
			for event, err := range turn.Events() {
				if err != nil {
					t.Fatal(err)
				}
				last = event
			}
			_, isLast := last.(callgate.TurnSuspended)
			equal(t, "last", isLast, true)
			_, err := turn.Wait()
			suspended := isKind(t, err, callgate.ErrSuspended)
			approval, err := d.approvals.Get(patient(t), suspended.ApprovalIDs[0])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := d.approvals.ApproveOnce(patient(t), approval.Ref(), ""); err != nil {
				t.Fatal(err)
			}
			attached, err := d.client.AttachTurn(patient(t), callgate.AttachRequest{TurnID: "s"})
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "text", end(t, attached).Call("c0").Text(), "{}")
		})
	}
}
