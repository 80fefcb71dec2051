//go:build real

// Hooks: the examples of a hook before tool use, the other points, and what goes wrong.

package real

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"

	callgate "callgate.invalid/clients/go"
)

type echoed struct {
	Text    string `json:"text,omitempty"`
	Path    string `json:"path,omitempty"`
	Timeout int    `json:"timeout,omitempty"`
}

// echoes are tools that give back what they got.
func (s *sidecar) echoes(t *testing.T, risk callgate.Risk, names ...string) *callgate.Client {
	t.Helper()
	var tools []*callgate.Definition
	for _, name := range names {
		tools = append(tools, callgate.Tool(name, "Says what it got.",
			func(_ context.Context, in echoed) (echoed, error) { return in, nil },
			callgate.WithRisk(risk), callgate.WithKind(callgate.KindRead)))
	}
	return s.executor(t, "tools", tools)
}

func (s *sidecar) hooks(t *testing.T, declare func(*callgate.Hooks)) *callgate.Hooks {
	t.Helper()
	made, err := callgate.NewHooks(callgate.WithEndpoint(s.control()), quick)
	if err != nil {
		t.Fatal(err)
	}
	declare(made)
	t.Cleanup(func() { _ = made.Close() })
	if err := made.WaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	return made
}

var sessions = 0

func fresh() string {
	sessions++
	return fmt.Sprintf("hooked-%d", sessions)
}

func TestEveryCallIsLoggedAndAllowed(t *testing.T) {
	mine := own(t)
	seen := make(chan *callgate.HookInput, 8)
	mine.hooks(t, func(h *callgate.Hooks) {
		h.Before("log-all", func(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
			seen <- asked
			return callgate.HookOutput{PermissionDecision: "allow"}, nil
		})
	})
	client := mine.echoes(t, callgate.Sensitive, "read")
	result := run(t, client, fresh(), call("c", "read", echoed{Text: "x"}))
	equal(t, "text", result.Call("c").Text(), `{"text":"x"}`)
	asked := <-seen
	equal(t, "tool", asked.ToolName, "read")
	equal(t, "args", string(asked.ToolArgs), `{"text":"x"}`)
	equal(t, "risk", asked.Risk, callgate.Sensitive)
	equal(t, "mode", asked.Mode, callgate.ModeDefault)
	equal(t, "time", asked.TimestampMs > 0, true)
}

func TestHooksBeforeCallsDoWhatTheySay(t *testing.T) {
	mine := own(t)
	mine.hooks(t, func(h *callgate.Hooks) {
		h.Before("block", func(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
			reason := fmt.Sprintf("Tool '%s' is not permitted in this environment", asked.ToolName)
			return callgate.HookOutput{PermissionDecision: "deny", PermissionDecisionReason: reason}, nil
		}, callgate.ForTools("bash"), callgate.WithOrder(1))
		h.Before("timeout", func(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
			var arguments echoed
			if err := asked.Arguments(&arguments); err != nil {
				return nil, err
			}
			if arguments.Timeout == 0 {
				arguments.Timeout = 30_000
			}
			return &callgate.HookOutput{PermissionDecision: "allow", ModifiedArgs: arguments}, nil
		}, callgate.ForTools("shell"))
		h.Before("confine", func(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
			var arguments echoed
			if err := asked.Arguments(&arguments); err != nil {
				return nil, err
			}
			clean := path.Clean(arguments.Path)
			if strings.HasPrefix(clean, "/srv/projects/") || strings.HasPrefix(clean, "/tmp/") {
				return nil, nil
			}
			return callgate.Before{Says: callgate.BeforeDeny, Reason: "Access to '" + clean + "' is not permitted"}, nil
		}, callgate.ForTools("read_file"))
		h.Before("quiet", func(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) {
			return callgate.HookOutput{SuppressOutput: true}, nil
		}, callgate.ForTools("list_directory"))
		h.Before("remind", func(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) {
			return callgate.HookOutput{AdditionalContext: "This database speaks PostgreSQL."}, nil
		}, callgate.ForTools("query_database"))
	})
	client := mine.echoes(t, callgate.Safe, "bash", "shell", "read_file", "list_directory", "query_database")
	result := run(t, client, fresh(),
		call("bash", "bash", nil), call("shell", "shell", echoed{Text: "ls"}), call("in", "read_file", echoed{Path: "/tmp/x"}),
		call("out", "read_file", echoed{Path: "/tmpx"}), call("list", "list_directory", echoed{Text: "long"}),
		call("query", "query_database", nil))
	equal(t, "bash", code(result.Call("bash")), "tool_denied_by_hook")
	equal(t, "bash", result.Call("bash").Error.Message, "Tool 'bash' is not permitted in this environment")
	equal(t, "shell", result.Call("shell").Text(), `{"text":"ls","timeout":30000}`)
	equal(t, "in", result.Call("in").Outcome, callgate.OutcomeSuccess)
	equal(t, "out", result.Call("out").Error.Message, "Access to '/tmpx' is not permitted")
	equal(t, "list", result.Call("list").Suppressed && !strings.Contains(result.Call("list").Text(), "long"), true)
	if len(result.HookContexts) != 1 || result.HookContexts[0].Text != "This database speaks PostgreSQL." || result.HookContexts[0].HookID != "remind" {
		t.Errorf("%+v", result.HookContexts)
	}
}

// audit is a hook as an object.
type audit struct{ failures chan string }

func (a audit) BeforeToolCall(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
	if asked.ToolName == "a" {
		return callgate.Before{Says: callgate.BeforeDeny, Reason: "not twice", Result: "cached"}, nil
	}
	return callgate.Before{}, nil
}

func (a audit) AfterToolCall(_ context.Context, asked *callgate.HookInput) (callgate.AfterAnswer, error) {
	if asked.Result == nil {
		return nil, errors.New("no result")
	}
	return &callgate.After{Says: callgate.AfterStop, Result: "polished", Messages: []callgate.Injected{{Text: "that will do"}}}, nil
}

func (a audit) AfterToolFailure(_ context.Context, asked *callgate.HookInput) (callgate.AfterAnswer, error) {
	a.failures <- asked.Result.Error.Code
	return nil, nil
}

func TestAHookIsAnObjectWithMethodsBeforeAndAfter(t *testing.T) {
	mine := own(t)
	made := audit{make(chan string, 1)}
	mine.hooks(t, func(h *callgate.Hooks) { h.Add("audit", made) })
	client := mine.echoes(t, callgate.Safe, "a", "b")
	failing := callgate.Tool("c", "Fails.", func(context.Context, struct{}) (string, error) {
		return "", callgate.Errorf("out_of_flour", "there is no flour")
	}, callgate.WithRisk(callgate.Safe))
	must[[]callgate.Registration](t)(client.UpdateTools(within(t), []*callgate.Definition{failing}))
	cached := run(t, client, fresh(), call("c", "a", nil)).Call("c")
	equal(t, "cached", cached.Text()+" "+cached.NotExecutedReason, "cached answered_by_hook")
	polished := run(t, client, fresh(), call("c", "b", nil))
	equal(t, "polished", polished.Call("c").Text(), "polished")
	equal(t, "stop", polished.StopReason, "hook")
	equal(t, "message", polished.HookMessages[0].Role+": "+polished.HookMessages[0].Text, "user: that will do")
	equal(t, "failed", code(run(t, client, fresh(), call("c", "c", nil)).Call("c")), "out_of_flour")
	equal(t, "failure", <-made.failures, "out_of_flour")
}

func TestDeferWaitsForAnApproverAndAbortEndsTheRun(t *testing.T) {
	mine := own(t)
	mine.hooks(t, func(h *callgate.Hooks) {
		h.Before("decide", func(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
			if asked.ToolName == "a" {
				return callgate.Before{Says: callgate.BeforeDefer, Reason: "look at it"}, nil
			}
			return callgate.Before{Says: callgate.BeforeAbort, Reason: "enough"}, nil
		})
	})
	client := mine.echoes(t, callgate.Safe, "a", "b")
	aborted := run(t, client, fresh(), call("c", "b", nil))
	equal(t, "aborted", aborted.Outcome, callgate.TurnOutcomeAborted)
	equal(t, "run", aborted.Run.State, "aborted")
	equal(t, "code", code(aborted.Call("c")), "run_aborted")
	turn := begin(t, client, callgate.TurnRequest{SessionID: fresh(), TurnID: "deferred", Calls: []callgate.ToolCall{call("c", "a", nil)}})
	desk := &office{Client: client, approvals: mine.approver(t)}
	waiting := desk.pending(t, "deferred", 1)[0]
	equal(t, "deferred", waiting.Deferred, true)
	must[callgate.DecisionOutcome](t)(desk.approvals.Deny(within(t), waiting.Ref(), ""))
	equal(t, "denied", code(end(t, turn).Call("c")), "tool_denied_by_user")
}

func TestAHookThatFailsOrSaysNonsenseHasFailed(t *testing.T) {
	mine := own(t)
	mine.hooks(t, func(h *callgate.Hooks) {
		h.Before("broken", func(_ context.Context, asked *callgate.HookInput) (callgate.BeforeAnswer, error) {
			switch asked.ToolName {
			case "a":
				return nil, errors.New("broken")
			case "b":
				panic("broken")
			}
			return callgate.HookOutput{PermissionDecision: "perhaps"}, nil
		})
	})
	client := mine.echoes(t, callgate.Safe, "a", "b", "c")
	for _, tool := range []string{"a", "b", "c"} {
		equal(t, tool, code(run(t, client, fresh(), call("c", tool, nil)).Call("c")), "hook_failed")
	}
}

func TestTurnsApprovalsAndLoopsAreToldAndAnswered(t *testing.T) {
	mine := own(t)
	told := make(chan string, 32)
	note := func(_ context.Context, in *callgate.HookInput) {
		told <- fmt.Sprintf("%s %d %d %s", in.Point, len(in.Calls), len(in.Results), in.LoopDetector)
	}
	mine.hooks(t, func(h *callgate.Hooks) {
		h.TurnStarted("started", note)
		h.TurnFinished("finished", note)
		h.LoopSuspected("loops", note)
		h.ApprovalRequested("approver", func(_ context.Context, asked *callgate.HookInput) (callgate.ApprovalAnswer, error) {
			if strings.Contains(string(asked.Approval.Arguments), "yes") {
				return callgate.ApprovalAnswer{Says: callgate.ApprovalApprove}, nil
			}
			return callgate.ApprovalAnswer{Says: callgate.ApprovalDeny, Message: "the hook says no"}, nil
		})
	})
	client := mine.echoes(t, callgate.Sensitive, "ask")
	session := fresh()
	equal(t, "yes", run(t, client, session, call("c", "ask", echoed{Text: "yes"})).Call("c").Outcome, callgate.OutcomeSuccess)
	no := run(t, client, session, call("c", "ask", echoed{Text: "no"})).Call("c")
	equal(t, "no", code(no), "tool_denied_by_user")
	for _, wanted := range []string{"turn_started 1 0 ", "turn_finished 1 1 ", "turn_started 1 0 ", "turn_finished 1 1 "} {
		equal(t, "told", <-told, wanted)
	}
	loop := fresh()
	var last *callgate.TurnResult
	for range 5 {
		last = run(t, client, loop, call("c", "ask", echoed{Text: "yes"}))
	}
	equal(t, "loop", last.Outcome, callgate.TurnOutcomeLoopDetected)
	for found := ""; !strings.HasPrefix(found, "loop_suspected"); {
		found = <-told
		if strings.HasPrefix(found, "loop_suspected") {
			equal(t, "told", found, "loop_suspected 0 0 tool_signature")
		}
	}
}

func TestClientHasHooksOfItsOwnAtTheSocketBeside(t *testing.T) {
	mine := own(t)
	client := mine.client(t, callgate.WithExecutor("tools"))
	if err := client.Add(callgate.Tool("a", "Runs.", func(context.Context, struct{}) (string, error) { return "raw", nil },
		callgate.WithRisk(callgate.Safe))); err != nil {
		t.Fatal(err)
	}
	client.Hooks().After("polish", func(context.Context, *callgate.HookInput) (callgate.AfterAnswer, error) {
		return callgate.AfterOutput{ModifiedResult: "polished"}, nil
	})
	if err := client.WaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	equal(t, "text", run(t, client, fresh(), call("c", "a", nil)).Call("c").Text(), "polished")
}

func TestAHookJudgesWhetherARunIsInALoop(t *testing.T) {
	mine := own(t)
	mine.setting("CALLGATE__LOOP__DIAGNOSIS__AFTER_ROUNDS=2", "CALLGATE__LOOP__DIAGNOSIS__EVERY_ROUNDS=1")
	mine.restart(t, syscall.SIGTERM)
	histories := make(chan string, 8)
	mine.hooks(t, func(h *callgate.Hooks) {
		h.LoopDiagnose("judge", func(_ context.Context, asked *callgate.HookInput) (callgate.LoopAnswer, error) {
			histories <- string(asked.History)
			return callgate.LoopAnswer{IsLoop: true, Reason: "nothing new", Confidence: 0.9}, nil
		})
	})
	client := mine.client(t)
	session := fresh()
	var last *callgate.TurnResult
	for rounds := 0; rounds < 4 && (last == nil || last.Outcome == callgate.TurnOutcomeCompleted); rounds++ {
		last = end(t, begin(t, client, callgate.TurnRequest{SessionID: session, History: []string{"hello"}}))
	}
	equal(t, "outcome", last.Outcome, callgate.TurnOutcomeLoopDetected)
	equal(t, "history", <-histories, `["hello"]`)
}

func TestHooksComeBackAfterTheSidecarDid(t *testing.T) {
	mine := own(t)
	asked := make(chan struct{}, 8)
	hooks := mine.hooks(t, func(h *callgate.Hooks) {
		h.Before("note", func(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) {
			asked <- struct{}{}
			return nil, nil
		})
	})
	mine.restart(t, syscall.SIGKILL)
	if err := hooks.WaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	equal(t, "outcome", run(t, mine.echoes(t, callgate.Safe, "a"), fresh(), call("c", "a", nil)).Call("c").Outcome, callgate.OutcomeSuccess)
	<-asked
}

func TestAHookThatCannotBeIsRefusedAtOnce(t *testing.T) {
	hooks, err := callgate.NewHooks(callgate.WithEndpoint(shared.control()), quick)
	if err != nil {
		t.Fatal(err)
	}
	defer hooks.Close()
	hooks.Before("never", func(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) { return nil, nil },
		callgate.ForTools("a("))
	if err := hooks.WaitReady(within(t)); !errors.Is(err, callgate.ErrInvalidRequest) || !strings.Contains(err.Error(), "never") {
		t.Errorf("%v", err)
	}
}
