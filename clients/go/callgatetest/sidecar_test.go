// Tests as users write them.

package callgatetest_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/callgatetest"
	"callgate.invalid/clients/go/examples/bakery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func tool(name string) *callgate.Definition {
	for _, found := range bakery.Tools() {
		if found.Name() == name {
			return found
		}
	}
	panic(name)
}

func services() *callgate.Services {
	made := &callgate.Services{}
	made.Register(bakery.NewRecords())
	return made
}

func TestAToolRunsWithoutASidecar(t *testing.T) {
	result := callgatetest.CallTool(context.Background(), tool("find_record"), services(), map[string]int{"index": 99})
	if result.Error == nil || result.Error.Code != "record_not_found" || result.Error.Path != "$.index" {
		t.Errorf("%+v", result.Error)
	}
	result = callgatetest.CallTool(context.Background(), tool("find_record"), services(), `{"index":1}`)
	if string(result.Structured) != `{"record_id":"r2","name":"brioche","minutes":30,"celsius":180}` {
		t.Errorf("%s", result.Structured)
	}
	result = callgatetest.CallTool(context.Background(), tool("find_record"), nil, `{"index":1}`)
	if result.Error == nil || result.Error.Code != "records_unavailable" || !result.Error.Retryable {
		t.Errorf("%+v", result.Error)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	result = callgatetest.CallTool(ctx, tool("proof_dough"), nil, nil)
	if result.Outcome != callgate.OutcomeCancelled || result.Effect != callgate.EffectExecuted {
		t.Errorf("%+v", result)
	}
}

func TestACallIsCancelledOverTheStream(t *testing.T) {
	sidecar := callgatetest.New(t)
	sidecar.Client(tool("proof_dough"))
	call := sidecar.Start("proof_dough", map[string]int{"seconds": 300}, callgatetest.CallOptions{})
	call.Until(func(seen callgatetest.Seen) bool { return len(seen.Accepted) > 0 })
	call.Cancel(callgate.CancelledCall, "enough")
	if result := call.Result(); result.Outcome != callgate.OutcomeCancelled {
		t.Errorf("%+v", result)
	}
}

func TestACallWaitsForADecision(t *testing.T) {
	sidecar := callgatetest.New(t)
	sidecar.Client(tool("broken_oven"))
	sidecar.Ask("broken_oven", callgate.Dangerous)
	approvals := sidecar.Approvals()
	call := sidecar.Start("broken_oven", nil, callgatetest.CallOptions{})
	sidecar.Asked(1)
	for approval, err := range approvals.List(context.Background(), callgate.ApprovalFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := approvals.Deny(context.Background(), approval.Ref(), "not this one"); err != nil {
			t.Fatal(err)
		}
	}
	if result := call.Result(); !errors.Is(result.Err(), callgate.ErrPermissionDenied) {
		t.Errorf("%v", result.Err())
	}
}

func TestABrokenStreamLosesNothing(t *testing.T) {
	sidecar := callgatetest.New(t)
	sidecar.Client(tool("bake_batch"))
	call := sidecar.Start("bake_batch", map[string]int{"count": 4}, callgatetest.CallOptions{})
	call.Until(func(seen callgatetest.Seen) bool { return len(seen.Progress) > 0 })
	sidecar.DropStreams()
	if result := call.Result(); string(result.Structured) != `{"baked":4}` {
		t.Errorf("%+v", result)
	}
}
