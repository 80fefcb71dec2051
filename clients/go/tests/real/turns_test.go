//go:build real

// Turns of the demo's tools: recorded messages, results, events, cancellation.

package real

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	callgate "callgate.invalid/clients/go"
)

func TestRecordedMessagesEndAsTheirNamesSay(t *testing.T) {
	caller := shared.bakery(t)
	for _, c := range []struct{ name, code, path string }{
		{"good_call", "", ""},
		{"wrong_type", "tool_argument_type_mismatch", "$.record_id"},
		{"missing_argument", "tool_argument_required", ""},
		{"fraction_for_integer", "tool_argument_type_mismatch", "$.index"},
		{"broken_json", "json_", ""},
		{"unknown_tool", "tool_not_found", ""},
		{"thrown_exception", "tool_execution_failed", ""},
		{"domain_error", "record_not_found", "$.index"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text, ids := message(t, c.name)
			result := end(t, begin(t, caller, callgate.TurnRequest{SessionID: id(t, "go-"+c.name), OpenAIMessage: text}))
			found := one(t, result)
			equal(t, "outcome", result.Outcome, callgate.TurnOutcomeCompleted)
			equal(t, "id", found.CallID, ids[0])
			if !strings.HasPrefix(code(found), c.code) || (c.code == "") != (code(found) == "") {
				t.Errorf("code %q, wanted %q", code(found), c.code)
			}
			if c.path != "" {
				equal(t, "path", found.Error.Path, c.path)
			}
			var reply struct {
				Role string `json:"role"`
				ID   string `json:"tool_call_id"`
			}
			if err := json.Unmarshal(result.Messages[0], &reply); err != nil || reply.Role != "tool" || reply.ID != ids[0] {
				t.Errorf("reply %+v, %v", reply, err)
			}
		})
	}
}

func TestBatchOfThreeIsAnsweredInCallOrder(t *testing.T) {
	caller := shared.bakery(t)
	text, ids := message(t, "batch_of_three")
	result := end(t, begin(t, caller, callgate.TurnRequest{SessionID: id(t, "go-batch"), OpenAIMessage: text}))
	var found []string
	for _, item := range result.Results {
		found = append(found, item.CallID)
		equal(t, item.CallID, item.IsError, false)
	}
	if !slices.Equal(found, ids) || len(result.Messages) != 3 {
		t.Errorf("%v, wanted %v", found, ids)
	}
}

func TestStopFlagEndsTheLoopAndTheRun(t *testing.T) {
	caller := shared.bakery(t)
	text, _ := message(t, "stop_flag")
	asked := callgate.TurnRequest{SessionID: id(t, "go-stop"), RunID: id(t, "go-stop-run"), OpenAIMessage: text}
	result := end(t, begin(t, caller, asked))
	equal(t, "stop", result.Stop, true)
	equal(t, "reason", result.StopReason, "tool")
	equal(t, "run", result.Run.State, "completed")
	_, err := begin(t, caller, asked).Wait()
	if !errors.Is(err, callgate.ErrRunNotActive) {
		t.Errorf("%v", err)
	}
	state, err := caller.GetRun(within(t), id(t, "go-stop"), id(t, "go-stop-run"))
	if err != nil || state.State != "completed" || state.Rounds != 1 {
		t.Errorf("%+v, %v", state, err)
	}
}

func TestCancelledContextCancelsTheTurnAndStopsTheTool(t *testing.T) {
	caller := shared.bakery(t)
	text, _ := message(t, "slow_call")
	ctx, cancel := context.WithCancelCause(within(t))
	defer cancel(nil)
	turn, err := caller.RunTurn(ctx, callgate.TurnRequest{SessionID: id(t, "go-cancel"), TurnID: id(t, "go-cancel-1"), OpenAIMessage: text})
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("the user went home")
	before := time.Now()
	for event, err := range turn.Events() {
		if _, reports := event.(callgate.CallProgress); reports {
			before = time.Now()
			cancel(why)
		}
		if err != nil && (!errors.Is(err, callgate.ErrCancelled) || !errors.Is(err, why)) {
			t.Fatal(err)
		}
	}
	attached, err := caller.AttachTurn(within(t), callgate.AttachRequest{TurnID: id(t, "go-cancel-1"), SessionID: id(t, "go-cancel")})
	if err != nil {
		t.Fatal(err)
	}
	result := end(t, attached)
	if span := time.Since(before); span > 3*time.Second {
		t.Errorf("it took %v", span)
	}
	equal(t, "outcome", result.Outcome, callgate.TurnOutcomeCancelled)
	equal(t, "stop", result.Stop, true)
	equal(t, "results", len(result.Results), 0)
	equal(t, "closing", result.ClosingResults[0].Outcome, callgate.OutcomeCancelled)
}

func TestOneCancelledCallHasItsResultAndTheTurnGoesOn(t *testing.T) {
	caller := shared.bakery(t)
	turn := begin(t, caller, callgate.TurnRequest{SessionID: id(t, "go-cancel-call"), Calls: []callgate.ToolCall{
		call("slow", "proof_dough", map[string]any{"seconds": 60}), call("quick", "find_record", `{"index":0}`),
	}})
	asked := false
	for event, err := range turn.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if _, reports := event.(callgate.CallProgress); reports && !asked {
			asked = true
			_, err := caller.CancelCall(within(t), callgate.CancelRequest{TurnID: turn.ID(), CallID: "slow", Reason: "enough"})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	result := end(t, turn)
	equal(t, "outcome", result.Outcome, callgate.TurnOutcomeCompleted)
	equal(t, "slow", code(result.Call("slow")), "tool_cancelled")
	equal(t, "quick", result.Call("quick").IsError, false)
	if !errors.Is(result.Call("slow").Err(), callgate.ErrCancelled) {
		t.Errorf("%v", result.Call("slow").Err())
	}
}

func TestIgnoredCancellationEndsWithAnUnknownEffect(t *testing.T) {
	deaf := make(chan struct{})
	began := make(chan struct{})
	executor := shared.executor(t, "deaf", []*callgate.Definition{
		callgate.Tool("deaf", "Hears nothing.", func(context.Context, struct{}) (string, error) {
			close(began)
			<-deaf
			return "late", nil
		}, callgate.WithRisk(callgate.Safe)),
	})
	turn := begin(t, executor, callgate.TurnRequest{SessionID: id(t, "go-deaf"), Calls: []callgate.ToolCall{call("a", "deaf", nil)}})
	<-began
	_, err := executor.CancelCall(within(t), callgate.CancelRequest{TurnID: turn.ID(), CallID: "a", Grace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	result := end(t, turn)
	equal(t, "code", code(result.Call("a")), "tool_cancelled")
	equal(t, "effect", result.Call("a").Effect, callgate.EffectUnknown)
	close(deaf)
}

func TestEventsProgressAndOutputArrive(t *testing.T) {
	caller := shared.bakery(t)
	turn := begin(t, caller, callgate.TurnRequest{
		SessionID: id(t, "go-events"), Calls: []callgate.ToolCall{call("c", "bake_batch", map[string]int{"count": 3})}, Output: true,
	})
	var kept []uint64
	var states []callgate.CallState
	var last callgate.TurnEvent
	printed, reports := "", 0
	for event, err := range turn.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if number := event.About().Sequence; number > 0 {
			kept = append(kept, number)
		}
		switch event := event.(type) {
		case callgate.CallStateChanged:
			states = append(states, event.State)
		case callgate.CallOutput:
			printed += string(event.Data)
		case callgate.CallProgress:
			reports++
		}
		last = event
	}
	for at, number := range kept {
		equal(t, "sequence", number, uint64(at+1))
	}
	if !slices.Equal(states, []callgate.CallState{"scheduled", "executing", "success"}) || reports == 0 {
		t.Errorf("%v, %d reports", states, reports)
	}
	equal(t, "output", printed, "loaf 1 is done\nloaf 2 is done\nloaf 3 is done\n")
	if _, isEnd := last.(callgate.TurnCompleted); !isEnd {
		t.Errorf("the last is %T", last)
	}
}

func TestIntegersBeyond2To53PassDigitForDigit(t *testing.T) {
	type in struct {
		N     int64 `json:"n"`
		Other any   `json:"other"`
	}
	executor := shared.executor(t, "numbers", []*callgate.Definition{
		callgate.Tool("echo", "Gives it back.", func(_ context.Context, in in) (map[string]any, error) {
			return map[string]any{"n": in.N, "other": in.Other}, nil
		}, callgate.WithRisk(callgate.Safe)),
	})
	text := `{"n":9007199254740993,"other":123456789012345678901234567890}`
	result := run(t, executor, id(t, "go-numbers"), call("c", "echo", text))
	equal(t, "structured", string(result.Call("c").Structured), text)
}

type flour string

type choice struct {
	Flour flour   `json:"flour" jsonschema:"enum=rye,enum=wheat"`
	Grams int     `json:"grams" jsonschema:"minimum=1"`
	Note  *string `json:"note,omitempty"`
}

func TestSchemaBeyondCoreIsRegisteredAndChecked(t *testing.T) {
	executor := shared.executor(t, "schemas", []*callgate.Definition{
		callgate.Tool("choose", "Chooses.", func(_ context.Context, in choice) (string, error) {
			return fmt.Sprintf("%d g of %s", in.Grams, in.Flour), nil
		}, callgate.WithRisk(callgate.Safe)),
	})
	result := run(t, executor, id(t, "go-schemas"),
		call("good", "choose", `{"flour":"rye","grams":5}`),
		call("enum", "choose", `{"flour":"sand","grams":5}`),
		call("range", "choose", `{"flour":"rye","grams":0}`))
	equal(t, "good", result.Call("good").Text(), "5 g of rye")
	equal(t, "enum", code(result.Call("enum")), "tool_argument_enum")
	equal(t, "range", code(result.Call("range")), "tool_argument_range")
	if !errors.Is(result.Call("range").Err(), callgate.ErrInvalidArguments) {
		t.Errorf("%v", result.Call("range").Err())
	}
}

func TestToolsComeAndGoWhileConnected(t *testing.T) {
	executor := shared.executor(t, "dynamic", nil)
	late := callgate.Tool("late", "Is late.", func(context.Context, struct{}) (string, error) { return "late", nil },
		callgate.WithRisk(callgate.Safe))
	answers, err := executor.UpdateTools(within(t), []*callgate.Definition{late})
	if err != nil || len(answers) != 1 || !answers[0].Active {
		t.Fatalf("%+v, %v", answers, err)
	}
	equal(t, "text", run(t, executor, id(t, "go-dynamic"), call("a", "late", nil)).Call("a").Text(), "late")
	info, err := executor.GetTool(within(t), "late")
	if err != nil || info.Owner != "dynamic" {
		t.Errorf("%+v, %v", info, err)
	}
	if _, err := executor.UpdateTools(within(t), nil, "late"); err != nil {
		t.Fatal(err)
	}
	equal(t, "gone", code(run(t, executor, id(t, "go-dynamic"), call("b", "late", nil)).Call("b")), "tool_not_found")
}

func TestSameTurnIDAttachesAndRunsNothingTwice(t *testing.T) {
	runs := 0
	executor := shared.executor(t, "counting", []*callgate.Definition{
		callgate.Tool("count", "Counts.", func(context.Context, struct{}) (int, error) {
			runs++
			return runs, nil
		}, callgate.WithRisk(callgate.Safe)),
	})
	asked := callgate.TurnRequest{SessionID: id(t, "go-twice"), TurnID: id(t, "go-twice-1"), Calls: []callgate.ToolCall{call("c", "count", nil)}}
	for range 2 {
		equal(t, "stream", end(t, begin(t, executor, asked)).Call("c").Text(), "1")
	}
	asked.OwnRPC = true
	equal(t, "rpc", end(t, begin(t, executor, asked)).Call("c").Text(), "1")
	equal(t, "runs", runs, 1)
}

func TestRefusalsHaveTheirKinds(t *testing.T) {
	caller := shared.client(t)
	turn := begin(t, caller, callgate.TurnRequest{SessionID: id(t, "go-refused"), Calls: []callgate.ToolCall{call("a", "x", nil), call("a", "x", nil)}})
	_, err := turn.Wait()
	var refused *callgate.Error
	if !errors.As(err, &refused) || !errors.Is(err, callgate.ErrInvalidRequest) || refused.Code != "call_id_duplicate" {
		t.Errorf("%v", err)
	}
	attached, err := caller.AttachTurn(within(t), callgate.AttachRequest{TurnID: "never-seen"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := attached.Wait(); !errors.Is(err, callgate.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := caller.GetTurn(within(t), "", "never-seen"); !errors.Is(err, callgate.ErrNotFound) {
		t.Errorf("%v", err)
	}
	if _, err := caller.GetTool(within(t), "never-seen"); !errors.Is(err, callgate.ErrToolNotFound) {
		t.Errorf("%v", err)
	}
}

func TestSidecarTellsAboutItself(t *testing.T) {
	caller := shared.bakery(t)
	info, err := caller.ServerInfo(within(t))
	if err != nil || info.State != "serving" || !reflect.DeepEqual(info.Dialects, []callgate.Dialect{"core", "json-schema-2020-12"}) {
		t.Errorf("%+v, %v", info, err)
	}
	for service, wanted := range map[string]callgate.HealthState{
		"readiness": callgate.Serving, "": callgate.Serving, "no-such-service": callgate.ServiceUnknown,
	} {
		if found, err := caller.Health(within(t), service); err != nil || found != wanted {
			t.Errorf("%q: %v, %v", service, found, err)
		}
	}
	exported, err := caller.ListTools(within(t), "", callgate.OpenAIChat)
	if err != nil || exported.SnapshotID == "" {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprintf("%s", exported.Exported), `"find_record"`) {
		t.Errorf("%s", exported.Exported)
	}
	text, _ := message(t, "good_call")
	result := end(t, begin(t, caller, callgate.TurnRequest{
		SessionID: id(t, "go-export"), OpenAIMessage: text, ToolSnapshotID: exported.SnapshotID,
	}))
	equal(t, "error", one(t, result).IsError, false)
}

func TestWrongTokenOverTCPIsRefused(t *testing.T) {
	caller := shared.client(t, callgate.WithEndpoint(shared.tcp()), callgate.WithToken("wrong"))
	if _, err := caller.ServerInfo(within(t)); !errors.Is(err, callgate.ErrUnauthenticated) {
		t.Errorf("%v", err)
	}
	if _, err := begin(t, caller, callgate.TurnRequest{SessionID: "s"}).Wait(); !errors.Is(err, callgate.ErrUnauthenticated) {
		t.Errorf("%v", err)
	}
	executor := shared.client(t, callgate.WithEndpoint(shared.tcp()), callgate.WithToken("wrong"), callgate.WithExecutor("x"))
	if err := executor.Serve(within(t)); !errors.Is(err, callgate.ErrUnauthenticated) {
		t.Errorf("%v", err)
	}
}

func TestBadToolsAreRefusedEachWithItsCode(t *testing.T) {
	program := t.TempDir() + "/bad_tools"
	if text, err := exec.Command("go", "build", "-o", program, "../../examples/bad_tools").CombinedOutput(); err != nil {
		t.Fatalf("%s", text)
	}
	process := exec.Command(program)
	process.Env = append(process.Environ(), "CALLGATE_ENDPOINT="+shared.endpoint())
	if text, err := process.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}

func TestStrictRegistrationEndsWithWhatWasRefused(t *testing.T) {
	client := shared.client(t, callgate.WithExecutor("strict"), callgate.StrictRegistration())
	bad := callgate.Tool("bad", "Is bad.", func(context.Context, map[string]any) (string, error) { return "", nil },
		callgate.WithDialect(callgate.DialectCore), callgate.WithSchema(`{"type":"object","enum":[1]}`))
	if err := client.Add(bad); err != nil {
		t.Fatal(err)
	}
	err := client.Serve(within(t))
	var refused *callgate.Error
	if !errors.Is(err, callgate.ErrRegistrationRefused) || !errors.As(err, &refused) {
		t.Fatalf("%v", err)
	}
	if len(refused.Refused) != 1 || refused.Refused[0].Error.Code != "schema_unsupported_keyword" {
		t.Errorf("%+v", refused.Refused)
	}
}
