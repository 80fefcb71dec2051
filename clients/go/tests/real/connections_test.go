//go:build real

// What happens when lines are cut and sidecars end, and how long a turn takes on loopback.

package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	callgate "callgate.invalid/clients/go"
)

// waiter is a tool that reports that it began and waits to be let go.
type waiter struct {
	runs atomic.Int32
	open chan struct{}
}

func newWaiter() *waiter { return &waiter{open: make(chan struct{})} }

func (w *waiter) tool(name string, options ...callgate.ToolOption) *callgate.Definition {
	return callgate.Tool(name, "Waits.", func(ctx context.Context, _ struct{}) (string, error) {
		w.runs.Add(1)
		callgate.CallFromContext(ctx).Progress("began", 0)
		select {
		case <-w.open:
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, append(options, callgate.WithRisk(callgate.Safe))...)
}

// onProgress reads a turn to its end and calls once when a call reports.
func onProgress(t *testing.T, turn *callgate.Turn, act func()) *callgate.TurnResult {
	t.Helper()
	acted := false
	for event, err := range turn.Events() {
		if err != nil {
			t.Fatal(err)
		}
		if _, reports := event.(callgate.CallProgress); reports && !acted {
			acted = true
			act()
		}
	}
	if !acted {
		t.Error("no call has reported")
	}
	return end(t, turn)
}

func TestExecutorThatLosesItsConnectionAnswersOnTheNext(t *testing.T) {
	line := newProxy(t, shared)
	waits := newWaiter()
	shared.executor(t, "cut", []*callgate.Definition{waits.tool("cut_tool")}, line.endpoint(), shared.token(t, "executor"))
	turn := begin(t, shared.client(t), callgate.TurnRequest{SessionID: id(t, "go-cut"), Calls: []callgate.ToolCall{call("a", "cut_tool", nil)}})
	result := onProgress(t, turn, func() {
		line.cut()
		close(waits.open)
	})
	equal(t, "text", result.Call("a").Text(), "done")
	equal(t, "attempts", result.Call("a").Attempts, 1)
	equal(t, "runs", waits.runs.Load(), 1)
}

func TestOrchestratorThatLosesItsConnectionSeesEveryEventOnce(t *testing.T) {
	shared.bakery(t)
	for _, ownRPC := range []bool{false, true} {
		t.Run(fmt.Sprintf("own rpc %v", ownRPC), func(t *testing.T) {
			line := newProxy(t, shared)
			caller := shared.client(t, line.endpoint(), shared.token(t, "orchestrator"))
			turn := begin(t, caller, callgate.TurnRequest{
				SessionID: id(t, "go-cut-turn"), OwnRPC: ownRPC, Calls: []callgate.ToolCall{call("a", "bake_batch", `{"count":8}`)},
			})
			var kept []uint64
			for event, err := range turn.Events() {
				if err != nil {
					t.Fatal(err)
				}
				if number := event.About().Sequence; number > 0 {
					kept = append(kept, number)
				}
				switch event.(type) {
				case callgate.TurnAccepted, callgate.CallProgress:
					if line.cuts < 3 {
						line.cut()
					}
				}
			}
			equal(t, "cuts", line.cuts, 3)
			equal(t, "structured", string(end(t, turn).Call("a").Structured), `{"baked":8}`)
			for at, number := range kept {
				equal(t, "sequence", number, uint64(at+1))
			}
		})
	}
}

func TestExecutorAndTurnsSurviveAKilledSidecar(t *testing.T) {
	mine := own(t)
	// Not a read, so that its dispatch is durable before it has effect.
	executor := mine.executor(t, "survivor", []*callgate.Definition{
		callgate.Tool("here", "Is here.", func(context.Context, struct{}) (string, error) { return "here", nil },
			callgate.WithRisk(callgate.Safe), callgate.WithKind(callgate.KindOther)),
	})
	asked := callgate.TurnRequest{SessionID: "kill", TurnID: "kill-1", Calls: []callgate.ToolCall{call("a", "here", nil)}}
	equal(t, "before", end(t, begin(t, executor, asked)).Call("a").Text(), "here")
	mine.restart(t, syscall.SIGKILL)
	equal(t, "after", run(t, executor, "kill", call("a", "here", nil)).Call("a").Text(), "here")
	attached, err := executor.AttachTurn(within(t), callgate.AttachRequest{TurnID: "kill-1", SessionID: "kill"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "again", end(t, attached).Call("a").Text(), "here")
}

func TestCallThatRunsWhileTheSidecarIsReplacedEndsExactlyOnce(t *testing.T) {
	mine := own(t)
	waits := newWaiter()
	executor := mine.executor(t, "survivor", []*callgate.Definition{waits.tool("wait", callgate.WithKind(callgate.KindOther))},
		callgate.WithReconnectTimeout(time.Minute))
	turn := begin(t, executor, callgate.TurnRequest{SessionID: "replace", TurnID: "replace-1", Calls: []callgate.ToolCall{call("a", "wait", nil)}})
	result := onProgress(t, turn, func() {
		mine.restart(t, syscall.SIGKILL)
		close(waits.open)
	})
	found := one(t, result)
	// Either the executor's own answer was taken up, or the sidecar says that it does not know.
	if found.IsError {
		if !slices.Contains([]string{"tool_outcome_unknown", "tool_unavailable"}, code(found)) {
			t.Errorf("%v", found)
		}
	} else {
		equal(t, "text", found.Text(), "done")
	}
	equal(t, "runs", waits.runs.Load(), 1)
}

func TestSidecarThatDrainsLetsTheRunningCallFinish(t *testing.T) {
	mine := own(t)
	waits := newWaiter()
	executor := mine.executor(t, "drained", []*callgate.Definition{waits.tool("wait", callgate.WithKind(callgate.KindRead))})
	turn := begin(t, executor, callgate.TurnRequest{SessionID: "drain", Calls: []callgate.ToolCall{call("a", "wait", nil)}})
	stopped := make(chan struct{})
	result := onProgress(t, turn, func() {
		go func() {
			mine.stop(syscall.SIGTERM)
			close(stopped)
		}()
		close(waits.open)
	})
	<-stopped
	equal(t, "text", result.Call("a").Text(), "done")
}

func TestExecutorThatDrainsFinishesWhatRunsAndGivesTheRestBack(t *testing.T) {
	waits := newWaiter()
	executor := shared.executor(t, "leaving", []*callgate.Definition{waits.tool("leaving_tool")}, callgate.WithConcurrency(1))
	caller := shared.client(t)
	running := begin(t, caller, callgate.TurnRequest{SessionID: id(t, "go-leaving"), Calls: []callgate.ToolCall{call("a", "leaving_tool", nil)}})
	result := onProgress(t, running, func() {
		closed := make(chan error, 1)
		go func() { closed <- executor.Close(within(t)) }()
		for executor.State() != callgate.StateDraining {
			time.Sleep(time.Millisecond) // Until another goroutine has come so far.
		}
		close(waits.open)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
	equal(t, "text", result.Call("a").Text(), "done")
	equal(t, "state", executor.State(), callgate.StateClosed)
}

func TestSecondProcessOfAnInstanceTakesOver(t *testing.T) {
	tool := func() []*callgate.Definition { return []*callgate.Definition{newWaiter().tool("taken")} }
	first := shared.executor(t, "taken", tool(), callgate.WithInstanceID("the-same"))
	served := make(chan error, 1)
	go func() { served <- first.Serve(within(t)) }()
	shared.executor(t, "taken", tool(), callgate.WithInstanceID("the-same"))
	if err := <-served; !errors.Is(err, callgate.ErrSuperseded) {
		t.Errorf("%v", err)
	}
}

func TestWhatIsTooLargeHarmsNothingElse(t *testing.T) {
	executor := shared.executor(t, "large", []*callgate.Definition{
		callgate.Tool("grow", "Gives much.", func(_ context.Context, in struct {
			Bytes int    `json:"bytes,omitempty"`
			Text  string `json:"text,omitempty"`
		}) (string, error) {
			return strings.Repeat("x", in.Bytes), nil
		}, callgate.WithRisk(callgate.Safe)),
	})
	result := run(t, executor, id(t, "go-large"),
		call("large", "grow", `{"bytes":3000000}`), call("small", "grow", `{"bytes":3}`),
		call("in", "grow", map[string]string{"text": strings.Repeat("y", 1_100_000)}))
	equal(t, "large", code(result.Call("large")), "result_too_large")
	equal(t, "small", result.Call("small").Text(), "xxx")
	equal(t, "in", code(result.Call("in")), "json_too_large")
	for _, ownRPC := range []bool{false, true} {
		_, err := executor.RunTurnToEnd(within(t), callgate.TurnRequest{
			SessionID: id(t, "go-large"), OwnRPC: ownRPC, ModelMessage: make([]byte, 4*1024*1024),
		})
		if !errors.Is(err, callgate.ErrLimitExceeded) {
			t.Errorf("%v", err)
		}
	}
	equal(t, "after", run(t, executor, id(t, "go-large"), call("after", "grow", `{"bytes":1}`)).Call("after").Text(), "x")
}

// A missing TCP_NODELAY on either side, in either direction, costs 44 ms. Half of it beyond what the same
// turn takes over the Unix socket leaves room for a busy machine and for builds without optimisation;
// where there is neither, a turn is below 5 ms.
func TestTurnOverLoopbackTCPWaitsForNoDelayedPacket(t *testing.T) {
	const most = 22 * time.Millisecond
	tool := func(name string) []*callgate.Definition {
		return []*callgate.Definition{callgate.Tool(name, "Gives it back.", func(_ context.Context, in struct {
			Text string `json:"text"`
		}) (string, error) {
			return in.Text, nil
		}, callgate.WithRisk(callgate.Safe), callgate.WithKind(callgate.KindRead))}
	}
	shared.executor(t, "near", tool("near"))
	shared.executor(t, "fast", tool("fast"), callgate.WithEndpoint(shared.tcp()), shared.token(t, "executor"))
	local := shared.client(t)
	caller := shared.client(t, callgate.WithEndpoint(shared.tcp()), shared.token(t, "orchestrator"))
	for _, ownRPC := range []bool{false, true} {
		for _, size := range []int{200, 10_000} {
			best, near := time.Hour, time.Duration(0)
			// The machine may be busy with something else for a while; the network is not.
			for round := 0; round < 5 && best >= near+most; round++ {
				near = medianTurn(t, local, "near", ownRPC, size, round)
				best = min(best, medianTurn(t, caller, "fast", ownRPC, size, round))
			}
			t.Logf("own rpc %v, %d bytes: %v, over the Unix socket %v", ownRPC, size, best, near)
			if best >= near+most {
				t.Errorf("own rpc %v, %d bytes: %v, and over the Unix socket %v", ownRPC, size, best, near)
			}
		}
	}
}

func medianTurn(t *testing.T, caller *callgate.Client, tool string, ownRPC bool, size, round int) time.Duration {
	t.Helper()
	arguments := map[string]string{"text": strings.Repeat("x", size)}
	var spans []time.Duration
	for number := range 60 {
		before := time.Now()
		result, err := caller.RunTurnToEnd(context.Background(), callgate.TurnRequest{
			SessionID: id(t, "go-fast"), RunID: id(t, fmt.Sprintf("%s-%v-%d-%d-%d", tool, ownRPC, size, round, number)), OwnRPC: ownRPC,
			Calls: []callgate.ToolCall{call("c", tool, arguments)},
		})
		spans = append(spans, time.Since(before))
		if err != nil || len(result.Call("c").Text()) != size {
			t.Fatal(err)
		}
	}
	slices.Sort(spans)
	return spans[len(spans)/2]
}
