// Examples, which the README shows; it is held to them here.

package callgate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/callgatetest"
)

type record struct {
	Name string `json:"name"`
}

var records []record

func ExampleTool() {
	type in struct {
		Index int    `json:"index" jsonschema:"minimum=0" jsonschema_description:"Position of the record."`
		Form  string `json:"form,omitempty" jsonschema:"enum=short,enum=long"`
	}
	findRecord := callgate.Tool("find_record", "Finds a record by its position.",
		func(ctx context.Context, in in) (*record, error) {
			if in.Index >= len(records) {
				return nil, callgate.Errorf("record_not_found", "there is no record at %d", in.Index)
			}
			return &records[in.Index], nil
		}, callgate.WithRisk(callgate.Safe), callgate.WithKind(callgate.KindRead))
	fmt.Println(findRecord.Err())
	// Output: <nil>
}

func ExampleWithPermissionCheck() {
	type in struct {
		Amount int    `json:"amount"`
		To     string `json:"to"`
	}
	pay := callgate.Tool("transfer", "Transfers money.",
		func(ctx context.Context, in in) (string, error) {
			return fmt.Sprintf("%d to %s", in.Amount, in.To), nil
		},
		callgate.WithRisk(callgate.Sensitive),
		callgate.WithPermissionCheck(func(ctx context.Context, in in, asked callgate.PermissionContext) (callgate.Permission, error) {
			if in.Amount > 10_000 {
				return callgate.Deny("at most 10 000 at once"), nil
			}
			if asked.Mode == callgate.ModeAuto && in.Amount > 100 {
				return callgate.AskFirm("more than pocket money"), nil
			}
			return callgate.Passthrough(), nil
		}))
	fmt.Println(pay.Err())
	// Output: <nil>
}

func ExampleCallFromContext() {
	proofDough := func(ctx context.Context, in struct {
		Minutes int `json:"minutes"`
	}) (string, error) {
		call := callgate.CallFromContext(ctx)
		for minute := range in.Minutes {
			select {
			case <-time.After(time.Minute): // In place of time.Sleep.
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
			call.Progress("proofing", float64(minute+1)/float64(in.Minutes))
			fmt.Fprintf(call.Writer(callgate.ChannelStdout), "minute %d\n", minute)
		}
		return "proofed", nil
	}
	fmt.Println(callgate.Tool("proof_dough", "Lets the dough rest.", proofDough, callgate.WithTimeout(10*time.Hour)).Err())
	// Output: <nil>
}

func ExampleClient_RunTurn() {
	run := func(ctx context.Context, client *callgate.Client, calls []callgate.ToolCall) error {
		turn, err := client.RunTurn(ctx, callgate.TurnRequest{SessionID: "session-1", Calls: calls, Output: true})
		if err != nil {
			return err
		}
		for event, err := range turn.Events() {
			if err != nil {
				return err
			}
			switch event := event.(type) {
			case callgate.CallStateChanged:
				fmt.Println(event.CallID, event.State)
			case callgate.CallOutput:
				fmt.Printf("%s", event.Data)
			}
		}
		result, err := turn.Wait() // At once: the events are over.
		if err != nil {
			return err
		}
		fmt.Println(result.Outcome)
		return nil
	}
	_ = run
}

func ExampleApprovals() {
	run := func(ctx context.Context) error {
		approvals, err := callgate.NewApprovals()
		if err != nil {
			return err
		}
		defer approvals.Close()
		watch, err := approvals.Watch(callgate.ApprovalFilter{}, "")
		if err != nil {
			return err
		}
		for update, err := range watch.Updates(ctx) {
			if err != nil {
				return err
			}
			for _, changed := range update.Approvals {
				approval, err := approvals.Get(ctx, changed.ApprovalID)
				switch {
				case err != nil:
					return err
				case !approval.Pending():
				case approval.Tool == "read_mail":
					_, err = approvals.ApproveOnce(ctx, approval.Ref(), "")
				default:
					_, err = approvals.Deny(ctx, approval.Ref(), "only mail may be read")
				}
				if err != nil && !errors.Is(err, callgate.ErrDecisionConflict) {
					return err
				}
			}
		}
		return nil
	}
	_ = run
}

func ExampleHooks() {
	run := func(ctx context.Context) error {
		hooks, err := callgate.NewHooks()
		if err != nil {
			return err
		}
		hooks.Before("default-timeout", func(ctx context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
			args := map[string]any{"timeout": json.Number("30000")}
			if err := asked.Arguments(&args); err != nil {
				return nil, err
			}
			return callgate.HookOutput{PermissionDecision: "allow", ModifiedArgs: args}, nil
		}, callgate.ForTools("shell"), callgate.WithOrder(1))
		hooks.Before("no-secrets", func(ctx context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
			if strings.Contains(string(asked.ToolArgs), ".env") {
				return callgate.Before{Says: callgate.BeforeDeny, Reason: "secrets stay here"}, nil
			}
			return nil, nil
		})
		hooks.After("done", func(ctx context.Context, asked *callgate.HookInput) (callgate.AfterAnswer, error) {
			if asked.ToolName == "finish" {
				return callgate.After{Says: callgate.AfterStop}, nil
			}
			return nil, nil
		})
		return hooks.Run(ctx)
	}
	_ = run
}

func ExampleSessions() {
	run := func(ctx context.Context, client *callgate.Client, approvals *callgate.Approvals) error {
		cwd := "/srv"
		session, err := client.Sessions().Create(ctx, "session-1", callgate.SessionSettings{Mode: callgate.ModePlan, Cwd: &cwd})
		if err != nil {
			return err
		}
		update, err := approvals.Sessions().SetMode(ctx, session.SessionID, session.Etag, callgate.ModeAcceptEdits)
		if err != nil {
			return err
		}
		fmt.Println(update.Released, "calls need not wait any more")
		for grant, err := range approvals.Sessions().Grants(ctx, session.SessionID, "active") {
			if err != nil {
				return err
			}
			if _, err := approvals.Sessions().Revoke(ctx, session.SessionID, grant.GrantID); err != nil {
				return err
			}
		}
		_, err = client.Sessions().Close(ctx, session.SessionID, "done")
		return err
	}
	_ = run
}

// The tests of a user, as the README shows them.

var findRecord = callgate.Tool("find_record", "Finds.", func(context.Context, struct{}) (string, error) {
	return "", callgate.Errorf("record_not_found", "there is none")
})

var proofDough = callgate.Tool("proof_dough", "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
})

func TestFindRecord(t *testing.T) {
	result := callgatetest.CallTool(t.Context(), findRecord, nil, map[string]int{"index": 99})
	if result.Error == nil || result.Error.Code != "record_not_found" {
		t.Error(result)
	}
}

var hooks = func() *callgate.Hooks {
	made, err := callgate.NewHooks(callgate.WithEndpoint("unix:///none"))
	if err != nil {
		panic(err)
	}
	made.Before("no-secrets", func(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) {
		return callgate.Before{Says: callgate.BeforeDeny}, nil
	})
	return made
}()

func TestMyHooks(t *testing.T) {
	secret := callgate.HookInput{HookID: "no-secrets", Point: callgate.PointBeforeToolCall, ToolArgs: []byte(`{"path":".env"}`)}
	said, err := callgatetest.AskHook(t.Context(), hooks, secret)
	if err != nil || said.(callgate.Before).Says != callgate.BeforeDeny {
		t.Error(said, err)
	}
}

func TestCancel(t *testing.T) {
	sidecar := callgatetest.New(t)
	sidecar.Client(proofDough)
	call := sidecar.Start("proof_dough", map[string]int{"minutes": 5}, callgatetest.CallOptions{})
	call.Until(func(seen callgatetest.Seen) bool { return len(seen.Accepted) > 0 })
	call.Cancel(callgate.CancelledCall, "enough")
	if result := call.Result(); result.Outcome != callgate.OutcomeCancelled {
		t.Error(result)
	}
}

// squeezedLines is a text without indentation.
func squeezedLines(text string) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		lines = append(lines, strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

func TestReadmeShowsOnlyWhatIsBuilt(t *testing.T) {
	built := ""
	for _, path := range []string{
		"example_test.go", "examples/quickstart_tool/main.go", "examples/quickstart_turn/main.go", "examples/openai_loop/main.go",
		"examples/bakery/bakery.go", "examples/baking_tools/main.go",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		built += squeezedLines(string(text)) + "\n"
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) < 8 {
		t.Errorf("%d blocks", len(blocks))
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(built, strings.TrimSpace(squeezedLines(code))) {
			t.Errorf("nothing is built of\n%s", code)
		}
	}
}
