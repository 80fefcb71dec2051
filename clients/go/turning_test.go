// Turns: events, losses, cancellation, and what is refused where it is given.

package callgate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/internal/fake"
	"callgate.invalid/clients/go/internal/pb"
)

var carriers = map[string]bool{"stream": false, "own rpc": true}

func begin(t *testing.T, client *callgate.Client, asked callgate.TurnRequest) *callgate.Turn {
	t.Helper()
	if asked.SessionID == "" {
		asked.SessionID = "session"
	}
	turn, err := client.RunTurn(patient(t), asked)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func end(t *testing.T, turn *callgate.Turn) *callgate.TurnResult {
	t.Helper()
	result, err := turn.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func calls(names ...string) []callgate.ToolCall {
	var made []callgate.ToolCall
	for at, name := range names {
		made = append(made, callgate.ToolCall{CallID: fmt.Sprintf("c%d", at), Name: name})
	}
	return made
}

func TestEventsComeWithoutGapsAndTheResultAfterThem(t *testing.T) {
	for name, ownRPC := range carriers {
		t.Run(name, func(t *testing.T) {
			s := newSide(t)
			client := s.executor([]*callgate.Definition{plain("one", func(context.Context) (int, error) { return 1, nil })})
			turn := begin(t, client, callgate.TurnRequest{Calls: calls("one", "two"), OwnRPC: ownRPC})
			var last uint64
			for event, err := range turn.Events() {
				if err != nil {
					t.Fatal(err)
				}
				if number := event.About().Sequence; number > 0 {
					equal(t, "sequence", number, last+1)
					last = number
				}
			}
			result := end(t, turn)
			equal(t, "one", result.Call("c0").Text(), "1")
			equal(t, "two", result.Call("c1").Error.Code, "tool_not_found")
			equal(t, "none", result.Call("c2") == nil, true)
			if _, err := turn.Next(); err != io.EOF {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestOutputComesOnlyIfItIsWanted(t *testing.T) {
	s := newSide(t)
	client := s.executor([]*callgate.Definition{plain("print", func(ctx context.Context) (string, error) {
		callgate.CallFromContext(ctx).Output(callgate.ChannelStdout, []byte("hello"))
		return "", nil
	})})
	for _, wanted := range []bool{true, false} {
		printed := ""
		for event, err := range begin(t, client, callgate.TurnRequest{Calls: calls("print"), Output: wanted}).Events() {
			if err != nil {
				t.Fatal(err)
			}
			if output, isOutput := event.(callgate.CallOutput); isOutput {
				printed += string(output.Data)
			}
		}
		equal(t, "printed", printed, map[bool]string{true: "hello"}[wanted])
	}
}

func TestLostStreamIsTakenUpWithoutGapsOrRepeats(t *testing.T) {
	for name, ownRPC := range carriers {
		t.Run(name, func(t *testing.T) {
			s := newSide(t)
			gate := newGated()
			client := s.executor([]*callgate.Definition{gate.tool("wait")})
			turn := begin(t, client, callgate.TurnRequest{Calls: calls("wait"), OwnRPC: ownRPC})
			var last uint64
			drops := 0
			for event, err := range turn.Events() {
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "sequence", event.About().Sequence, last+1)
				last++
				if drops++; drops <= 3 {
					s.Turns.DropStreams()
				}
				if drops == 3 {
					close(gate.open)
				}
			}
			equal(t, "text", end(t, turn).Call("c0").Text(), "done")
		})
	}
}

func TestTurnThatWasLostWithItsProcessIsSentAgainAsItWas(t *testing.T) {
	for name, ownRPC := range carriers {
		t.Run(name, func(t *testing.T) {
			s := newSide(t)
			s.Approvals.Ask["late"] = pb.RiskLevel_RISK_LEVEL_SAFE
			client := s.executor([]*callgate.Definition{plain("late", func(context.Context) (string, error) { return "well", nil })})
			turn := begin(t, client, callgate.TurnRequest{Calls: calls("late"), OwnRPC: ownRPC})
			accepted := 0
			for event, err := range turn.Events() {
				if err != nil {
					t.Fatal(err)
				}
				switch event.(type) {
				case callgate.TurnAccepted:
					accepted++
				case callgate.TurnSuspended:
					if accepted == 1 {
						s.Turns.Forget()
						s.Do(func() { delete(s.Approvals.Ask, "late") })
						s.Turns.DropStreams()
					}
				}
			}
			equal(t, "accepted", accepted, 2)
			equal(t, "text", end(t, turn).Call("c0").Text(), "well")
			// The turn that was lost waits in the fake for ever otherwise.
			s.Do(func() {
				for _, item := range s.Approvals.Waiting() {
					item.Decision = &pb.Decision{Choice: pb.ApprovalChoice_APPROVAL_CHOICE_DENY}
				}
			})
		})
	}
}

func TestContextThatEndsCancelsTheTurn(t *testing.T) {
	for name, ownRPC := range carriers {
		t.Run(name, func(t *testing.T) {
			s := newSide(t)
			gate := newGated()
			client := s.executor([]*callgate.Definition{gate.tool("wait")})
			ctx, cancel := context.WithCancelCause(patient(t))
			turn, err := client.RunTurn(ctx, callgate.TurnRequest{SessionID: "s", Calls: calls("wait"), OwnRPC: ownRPC})
			if err != nil {
				t.Fatal(err)
			}
			<-gate.began
			why := errors.New("the user went home")
			cancel(why)
			_, err = turn.Wait()
			isKind(t, err, callgate.ErrCancelled)
			equal(t, "cause", errors.Is(err, why), true)
			s.until(func() bool { return len(s.Turns.Cancels) == 1 })
			equal(t, "reason", s.Turns.Cancels[0].GetReason(), "the user went home")
			s.until(func() bool { return s.Turns.Turns[turn.ID()].Completed != nil })
		})
	}
}

func TestContextThatEndsAfterTheTurnCancelsNothing(t *testing.T) {
	s := newSide(t)
	client := s.executor([]*callgate.Definition{plain("one", func(context.Context) (int, error) { return 1, nil })})
	ctx, cancel := context.WithCancel(patient(t))
	if _, err := client.RunTurnToEnd(ctx, callgate.TurnRequest{SessionID: "s", Calls: calls("one")}); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = client.Close(patient(t))
	s.Do(func() { equal(t, "cancels", len(s.Turns.Cancels), 0) })
}

func TestHandleCancelsWithClosingResultsAndDetachesWithout(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	client := s.executor([]*callgate.Definition{gate.tool("wait")})
	turn := begin(t, client, callgate.TurnRequest{Calls: calls("wait")})
	<-gate.began
	turn.Cancel("enough")
	result := end(t, turn)
	equal(t, "outcome", result.Outcome, callgate.TurnOutcomeCancelled)
	equal(t, "closing", result.ClosingResults[0].Outcome, callgate.OutcomeCancelled)

	detached := begin(t, client, callgate.TurnRequest{Calls: calls("wait"), TurnID: "detached"})
	<-gate.began
	detached.Detach()
	_, err := detached.Wait()
	isKind(t, err, callgate.ErrClosed)
	close(gate.open)
	attached, err := client.AttachTurn(patient(t), callgate.AttachRequest{TurnID: "detached"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "text", end(t, attached).Call("c0").Text(), "done")
	s.Do(func() { equal(t, "cancels", len(s.Turns.Cancels), 1) })
}

func TestAttachAfterAnEventGivesOnlyWhatFollows(t *testing.T) {
	s := newSide(t)
	client := s.executor([]*callgate.Definition{plain("one", func(context.Context) (int, error) { return 1, nil })})
	end(t, begin(t, client, callgate.TurnRequest{Calls: calls("one"), TurnID: "known"}))
	attached, err := client.AttachTurn(patient(t), callgate.AttachRequest{TurnID: "known", Epoch: 1, AfterSequence: 3})
	if err != nil {
		t.Fatal(err)
	}
	first, err := attached.Next()
	if err != nil || first.About().Sequence != 4 {
		t.Errorf("%+v, %v", first, err)
	}
	end(t, attached)
}

func TestRefusedTurnFailsWithWhatTheSidecarSaid(t *testing.T) {
	for name, ownRPC := range carriers {
		t.Run(name, func(t *testing.T) {
			s := newSide(t)
			s.Turns.Refuse = fake.Refusal(codes.FailedPrecondition, pb.ErrorReason_ERROR_REASON_RUN_NOT_ACTIVE, "run_not_active")
			_, err := begin(t, s.client(), callgate.TurnRequest{OwnRPC: ownRPC}).Wait()
			equal(t, "code", isKind(t, err, callgate.ErrRunNotActive).Code, "run_not_active")
			isKind(t, err, callgate.ErrConflict)
		})
	}
}

func TestTurnGivesUpWhenTheSidecarStaysAway(t *testing.T) {
	for name, ownRPC := range carriers {
		t.Run(name, func(t *testing.T) {
			s := newSide(t)
			s.Down()
			client := s.client(callgate.WithReconnectTimeout(50 * time.Millisecond))
			_, err := begin(t, client, callgate.TurnRequest{OwnRPC: ownRPC}).Wait()
			equal(t, "retryable", isKind(t, err, callgate.ErrConnectionLost).Retryable, true)
		})
	}
}

func TestClosingTheClientSettlesEveryTurn(t *testing.T) {
	s := newSide(t)
	s.Approvals.Ask["wait"] = pb.RiskLevel_RISK_LEVEL_SAFE
	client := s.client()
	var turns []*callgate.Turn
	for name, ownRPC := range carriers {
		turns = append(turns, begin(t, client, callgate.TurnRequest{TurnID: name, OwnRPC: ownRPC, Calls: calls("wait")}))
	}
	s.until(func() bool { return len(s.Approvals.Waiting()) == 2 })
	_ = client.Close(patient(t))
	for _, turn := range turns {
		_, err := turn.Wait()
		isKind(t, err, callgate.ErrClosed)
	}
	_, err := client.RunTurn(patient(t), callgate.TurnRequest{SessionID: "s"})
	isKind(t, err, callgate.ErrClosed)
	_, err = client.ServerInfo(patient(t))
	isKind(t, err, callgate.ErrClosed)
}

func TestSameTurnTwiceOnOneClientIsAConflict(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	client := s.executor([]*callgate.Definition{gate.tool("wait")})
	turn := begin(t, client, callgate.TurnRequest{TurnID: "twice", Calls: calls("wait")})
	_, err := client.RunTurn(patient(t), callgate.TurnRequest{SessionID: "session", TurnID: "twice", Calls: calls("wait")})
	equal(t, "code", isKind(t, err, callgate.ErrConflict).Code, "turn_already_followed")
	close(gate.open)
	end(t, turn)
}

func TestTurnThatNoSidecarTakesFailsAlone(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	client := s.executor([]*callgate.Definition{gate.tool("wait")})
	well := begin(t, client, callgate.TurnRequest{Calls: calls("wait")})
	for _, ownRPC := range carriers {
		_, err := client.RunTurn(patient(t), callgate.TurnRequest{SessionID: "s", OwnRPC: ownRPC, ModelMessage: make([]byte, 4<<20)})
		equal(t, "limit", isKind(t, err, callgate.ErrLimitExceeded).Limit.Name, "message_bytes_max")
	}
	close(gate.open)
	end(t, well)
}

func TestWhatCannotBeSentIsRefusedWhereItIsGiven(t *testing.T) {
	client := newSide(t).client()
	for _, asked := range []callgate.TurnRequest{
		{Calls: calls("a"), OpenAIMessage: `{}`},
		{Calls: []callgate.ToolCall{{CallID: "a", Name: "a", Arguments: func() {}}}},
		{OpenAIMessage: make(chan int)},
		{BatchPolicy: "perhaps"},
		{History: func() {}},
	} {
		_, err := client.RunTurn(patient(t), asked)
		isKind(t, err, callgate.ErrInvalidRequest)
	}
}

func TestSlowReaderLosesOnlyWhatIsNotKeptAndIsTold(t *testing.T) {
	s := newSide(t)
	const printed = 3_000
	gate := newGated()
	client := s.executor([]*callgate.Definition{plain("print", func(ctx context.Context) (string, error) {
		for range printed {
			callgate.CallFromContext(ctx).Output(callgate.ChannelText, []byte("x"))
		}
		gate.began <- struct{}{}
		<-gate.open
		callgate.CallFromContext(ctx).Output(callgate.ChannelText, []byte("last"))
		return "done", nil
	})})
	turn := begin(t, client, callgate.TurnRequest{Calls: calls("print"), Output: true})
	<-gate.began
	s.until(func() bool {
		x := s.Turns.Turns[turn.ID()].Calls[0].Execution
		return x != nil && len(x.Output) == printed
	})
	// A second turn on the same stream ends behind all of that.
	end(t, begin(t, client, callgate.TurnRequest{Calls: calls("none")}))
	var taken, dropped uint64
	opened := false
	for event, err := range turn.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if output, isOutput := event.(callgate.CallOutput); isOutput {
			taken += uint64(len(output.Data))
			dropped += output.DroppedBytes
			if !opened && taken > 1_000 {
				opened = true
				close(gate.open)
			}
		}
	}
	equal(t, "bytes", taken+dropped, printed+4)
	equal(t, "text", end(t, turn).Call("c0").Text(), "done")
}

func TestTurnCarriesWhatItWasGiven(t *testing.T) {
	s := newSide(t)
	client := s.client()
	end(t, begin(t, client, callgate.TurnRequest{
		TurnID: "full", RunID: "run", Toolset: "tools", ToolSnapshotID: "snapshot", MaxParallel: 3, Timeout: time.Second,
		ModelMessage: []byte("kept"), Results: callgate.ResultsBoth, NoProgress: true, ResultsFormat: callgate.OpenAIChat,
		CancelOnDisconnect: true, BatchPolicy: callgate.EagerSafe, History: []string{"hello"}, Traceparent: "00-1",
		CommandRules: []callgate.Rule{{Effect: callgate.PermissionDeny, Rule: "run_shell(rm *)", Modes: []callgate.Mode{callgate.ModeAuto}}},
		Calls:        []callgate.ToolCall{{CallID: "a", Name: "x", Arguments: map[string]string{"a": "<b>"}, Truncated: true}},
	}))
	sent := s.Turns.Turns["full"].Request
	wanted := `session_id:"session" turn_id:"full" calls:{call_id:"a" name:"x" arguments_json:"{\"a\":\"<b>\"}" truncated:true} ` +
		`run_id:"run" toolset:"tools" tool_snapshot_id:"snapshot" view:{result_delivery:RESULT_DELIVERY_BOTH exclude_progress:true ` +
		`max_message_bytes:5242864 results_format:PROVIDER_FORMAT_OPENAI_CHAT} on_disconnect:ON_DISCONNECT_CANCEL ` +
		`command_rules:{effect:PERMISSION_EFFECT_DENY rule:"run_shell(rm *)" modes:MODE_AUTO} batch_policy:BATCH_POLICY_EAGER_SAFE ` +
		`max_parallel:3 timeout_ms:1000 model_message:"kept" history_json:"[\"hello\"]" trace:{traceparent:"00-1"}`
	equal(t, "sent", squeeze(sent.String()), wanted)
}

func TestUnaryQuestionsAreAnswered(t *testing.T) {
	s := newSide(t)
	client := s.executor([]*callgate.Definition{plain("a", func(context.Context) (string, error) { return "", nil })})
	ctx := patient(t)
	list, err := client.ListTools(ctx, "", "")
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "a" || list.Tools[0].Owner != "test" {
		t.Errorf("%+v, %v", list, err)
	}
	exported, err := client.ListTools(ctx, "", callgate.OpenAIChat)
	var function struct{ Function struct{ Name string } }
	if err != nil || json.Unmarshal(exported.Exported[0], &function) != nil || function.Function.Name != "a" {
		t.Errorf("%+v, %v", exported, err)
	}
	if health, err := client.Health(ctx, "readiness"); err != nil || health != callgate.Serving {
		t.Errorf("%v, %v", health, err)
	}
	if health, err := client.Health(ctx, "none"); err != nil || health != callgate.ServiceUnknown {
		t.Errorf("%v, %v", health, err)
	}
	_, err = client.GetTurn(ctx, "", "none")
	isKind(t, err, callgate.ErrNotFound)
	state, err := client.CancelTurn(ctx, callgate.CancelRequest{TurnID: "none", Grace: -1})
	equal(t, "not seen", state, "")
	if err != nil {
		t.Error(err)
	}
	if grace := s.Turns.Cancels[0].GraceMs; grace == nil || *grace != 0 {
		t.Errorf("%v", grace)
	}
	_, err = client.EndRun(ctx, "session", "")
	isKind(t, err, callgate.ErrProtocol) // The fake one has no runs.
}

// squeeze takes out the blanks that the text form of messages varies on purpose.
func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }
