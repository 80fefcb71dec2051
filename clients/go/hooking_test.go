// Processes of hooks: what they are asked, what they answer, and how they leave.

package callgate_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/callgatetest"
	"callgate.invalid/clients/go/internal/pb"
)

// hooks are those of a test, ready and closed with it.
func (s *side) hooks(declare func(*callgate.Hooks)) *callgate.Hooks {
	s.t.Helper()
	made, err := callgate.NewHooks(s.options()...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = made.Close() })
	declare(made)
	if err := made.WaitReady(patient(s.t)); err != nil {
		s.t.Fatal(err)
	}
	return made
}

func invocation(id, hook string, point pb.HookPoint, timeout uint32) *pb.ConnectHookResponse {
	return &pb.ConnectHookResponse{Body: &pb.ConnectHookResponse_Invocation{Invocation: &pb.HookInvocation{
		InvocationId: id, HookId: hook, Point: point, TimeoutMs: timeout, Attempt: 1,
		Payload: &pb.HookInvocation_Before{Before: &pb.BeforeToolCall{
			Call: &pb.ToolCall{CallId: "c", Name: id}, ArgumentsJson: []byte(`{"a":9007199254740993}`),
			Validation: &pb.ToolError{Code: "tool_argument_required"},
			Tool:       &pb.HookTool{Name: id, RiskLevel: 99, Kind: 99},
			Earlier:    []*pb.HookOutcome{{HookId: "first", Status: 1, Action: 2, Modified: true}},
		}},
	}}}
}

func TestAHookIsAskedWithEverythingAndAnswersOnce(t *testing.T) {
	s := newSide(t)
	asked := make(chan *callgate.HookInput, 8)
	s.hooks(func(h *callgate.Hooks) {
		h.Before("decide", func(_ context.Context, in *callgate.HookInput) (callgate.BeforeAnswer, error) {
			asked <- in
			switch in.ToolName {
			case "nil":
				return nil, nil
			case "nil output":
				return (*callgate.HookOutput)(nil), nil
			case "output":
				return callgate.HookOutput{PermissionDecision: "ask", PermissionDecisionReason: "why", AdditionalContext: "context", SuppressOutput: true}, nil
			case "deny":
				return &callgate.Before{Says: callgate.BeforeDeny, Result: map[string]int{"a": 1}, ReasonForModel: "model"}, nil
			case "bytes":
				return callgate.Before{Says: callgate.BeforeDeny, Result: []byte("x")}, nil
			case "args":
				var args map[string]any
				if err := in.Arguments(&args); err != nil {
					return nil, err
				}
				args["b"] = "<c>"
				return callgate.Before{Args: args}, nil
			case "error":
				return nil, errors.New("broken")
			}
			panic("broken too")
		}, callgate.WithOrder(3), callgate.WithMatcher(callgate.HookMatcher{Tools: []string{"*"}, Risks: []callgate.Risk{"safe"}, Kinds: []callgate.ToolKind{"read"}}),
			callgate.OnHookFailure(callgate.FailureAsks), callgate.WithHookDescription("Decides."))
	})
	wanted := map[string]string{
		"nil": "before:{action:BEFORE_ACTION_PROCEED}", "nil output": "before:{action:BEFORE_ACTION_PROCEED}",
		"output": `before:{action:BEFORE_ACTION_ASK additional_context:"context" suppress_output:true reason_for_user:"why"}`,
		"deny": `before:{action:BEFORE_ACTION_DENY reason_for_model:"model" synthetic_result:{contents:{text:"{\"a\":1}"} ` +
			`structured_json:"{\"a\":1}"}}`,
		"bytes": `failure:{message:"the result cannot be sent: the tool returned bytes without saying what they are"}`,
		"args":  `before:{action:BEFORE_ACTION_PROCEED modified_args_json:"{\"a\":9007199254740993,\"b\":\"<c>\"}"}`,
		"error": `failure:{message:"broken"}`, "panic": `failure:{message:"panic: broken too"}`,
	}
	for id := range wanted {
		s.Hooks.Send(invocation(id, "decide", pb.HookPoint_HOOK_POINT_BEFORE_TOOL_CALL, 5_000))
	}
	s.Hooks.Send(invocation("unknown", "other", pb.HookPoint_HOOK_POINT_BEFORE_TOOL_CALL, 5_000))
	wanted["unknown"] = `failure:{message:"this client does not know that point"}`
	s.until(func() bool { return len(s.Hooks.Verdicts) == len(wanted) })
	for _, verdict := range s.Hooks.Verdicts {
		equal(t, verdict.GetInvocationId(), squeeze(verdict.String()),
			squeeze(fmt.Sprintf("invocation_id:%q %s", verdict.GetInvocationId(), wanted[verdict.GetInvocationId()])))
	}
	in := <-asked
	equal(t, "args", string(in.ToolArgs), `{"a":9007199254740993}`)
	equal(t, "unknown values", fmt.Sprint(in.Risk, " ", in.Kind, " ", in.Mode), "dangerous other ")
	equal(t, "validation", in.Validation.Code, "tool_argument_required")
	equal(t, "earlier", in.Earlier[0], callgate.EarlierHook{HookID: "first", Status: "answered", Says: "allow", Modified: true})
	equal(t, "hello", squeeze(s.Hooks.Hellos[0].GetHooks()[0].String()),
		`hook_id:"decide" points:HOOK_POINT_BEFORE_TOOL_CALL order:3 matcher:{tools:"*" risk_levels:RISK_LEVEL_SAFE kinds:TOOL_KIND_READ} `+
			`timeout_ms:5000 on_failure:HOOK_FAILURE_MODE_ASK description:"Decides."`)
}

func TestAnswerThatIsNoLongerWantedIsNotSentAndItsContextEnds(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	causes := make(chan error, 1)
	s.hooks(func(h *callgate.Hooks) {
		h.Before("slow", func(ctx context.Context, in *callgate.HookInput) (callgate.BeforeAnswer, error) {
			if in.ToolName == "quick" {
				return nil, nil
			}
			gate.began <- struct{}{}
			<-ctx.Done()
			causes <- ctx.Err()
			return nil, ctx.Err()
		})
		h.TurnStarted("told", func(context.Context, *callgate.HookInput) { gate.began <- struct{}{} })
	})
	s.Hooks.Send(invocation("slow", "slow", pb.HookPoint_HOOK_POINT_BEFORE_TOOL_CALL, 60_000))
	<-gate.began
	s.Hooks.Send(&pb.ConnectHookResponse{Body: &pb.ConnectHookResponse_InvocationCancelled{
		InvocationCancelled: &pb.InvocationCancelled{InvocationId: "slow"},
	}})
	equal(t, "cause", <-causes, context.Canceled)
	// Who is only told answers to nobody.
	s.Hooks.Send(invocation("told", "told", pb.HookPoint_HOOK_POINT_TURN_STARTED, 0))
	<-gate.began
	s.Hooks.Send(invocation("quick", "slow", pb.HookPoint_HOOK_POINT_BEFORE_TOOL_CALL, 60_000))
	s.until(func() bool { return len(s.Hooks.Verdicts) > 0 })
	equal(t, "first", s.Hooks.Verdicts[0].GetInvocationId(), "quick")
}

func TestAHookThatAsksForMoreTimeHasItOnce(t *testing.T) {
	s := newSide(t)
	granted := make(chan bool, 2)
	spans := make(chan time.Duration, 1)
	s.hooks(func(h *callgate.Hooks) {
		h.Before("slow", func(ctx context.Context, _ *callgate.HookInput) (callgate.BeforeAnswer, error) {
			before := time.Now()
			granted <- callgate.NeedMoreTime(ctx, time.Hour)
			granted <- callgate.NeedMoreTime(ctx, time.Hour)
			<-ctx.Done()
			spans <- time.Since(before)
			return nil, context.Cause(ctx)
		})
	})
	s.Hooks.Send(invocation("slow", "slow", pb.HookPoint_HOOK_POINT_BEFORE_TOOL_CALL, 300))
	equal(t, "first", <-granted, true)
	equal(t, "second", <-granted, false)
	if span := <-spans; span < 350*time.Millisecond || span > 10*time.Second {
		t.Errorf("it had %v", span)
	}
	s.until(func() bool { return len(s.Hooks.More) == 1 && len(s.Hooks.Verdicts) == 1 })
	equal(t, "asked", s.Hooks.More[0].GetInvocationId(), "slow")
	equal(t, "elsewhere", callgate.NeedMoreTime(context.Background(), time.Second), false)
}

func TestHooksComeBackAndLeaveInOrder(t *testing.T) {
	s := newSide(t)
	s.Hooks.Timing = &pb.StreamTiming{PingIntervalMs: 20, PingMisses: 2}
	hooks := s.hooks(func(h *callgate.Hooks) {
		h.Before("any", func(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) { return nil, nil })
	})
	s.until(func() bool { return s.Hooks.Pings >= 4 })
	equal(t, "hellos", len(s.Hooks.Hellos), 1)
	s.Hooks.DropStreams()
	s.until(func() bool { return len(s.Hooks.Hellos) == 2 && s.Hooks.Connected() })
	s.Do(func() { s.Hooks.Deaf = true })
	s.until(func() bool { return len(s.Hooks.Hellos) == 3 && s.Hooks.Connected() })
	s.Do(func() { s.Hooks.Deaf = false })
	equal(t, "instance", s.Hooks.Hellos[2].GetInstanceId(), s.Hooks.Hellos[0].GetInstanceId())
	if err := hooks.WaitReady(patient(t)); err != nil {
		t.Fatal(err)
	}
	_ = hooks.Close()
	s.until(func() bool { return s.Hooks.Closed == 1 })
	isKind(t, hooks.Start(), callgate.ErrClosed)
}

func TestClientHasHooksOfItsOwn(t *testing.T) {
	s := newSide(t)
	client := s.client(callgate.WithExecutor("test"))
	if err := client.Add(plain("any", func(context.Context) (string, error) { return "", nil })); err != nil {
		t.Fatal(err)
	}
	none := func(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) { return nil, nil }
	client.Hooks().Before("own", none)
	_, err := client.RunTurn(patient(t), callgate.TurnRequest{SessionID: "s"})
	equal(t, "early", isKind(t, err, callgate.ErrConflict).Code, "client_not_started")
	if err := client.WaitReady(patient(t)); err != nil {
		t.Fatal(err)
	}
	s.Do(func() {
		equal(t, "hooks", s.Hooks.Connected() && s.Hooks.Hellos[0].GetHooks()[0].GetHookId() == "own", true)
	})
	end(t, begin(t, client, callgate.TurnRequest{Calls: calls("any")}))
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { served <- client.Serve(ctx) }()
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	s.until(func() bool { return s.Hooks.Closed == 1 })

	alone := s.client()
	alone.Hooks().Before("alone", none)
	if err := alone.WaitReady(patient(t)); err != nil {
		t.Fatal(err)
	}
	late := s.client()
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	late.Hooks().Before("late", none)
	isKind(t, late.Hooks().Start(), callgate.ErrDefinition)
}

// everything is a hook of every point.
type everything struct{ audit }

type audit struct{}

func (audit) BeforeToolCall(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) {
	return (*callgate.Before)(nil), nil
}

func (audit) AfterToolCall(context.Context, *callgate.HookInput) (callgate.AfterAnswer, error) {
	return &callgate.AfterOutput{ModifiedResult: "polished", AdditionalContext: "c", SuppressOutput: true}, nil
}

func (everything) AfterToolFailure(context.Context, *callgate.HookInput) (callgate.AfterAnswer, error) {
	return (*callgate.AfterOutput)(nil), nil
}

func (everything) ApprovalRequested(_ context.Context, asked *callgate.HookInput) (callgate.ApprovalAnswer, error) {
	if asked.Approval.Tool == "read_mail" {
		return callgate.ApprovalAnswer{Says: callgate.ApprovalApprove}, nil
	}
	return callgate.ApprovalAnswer{}, nil
}

func (everything) LoopDiagnose(_ context.Context, asked *callgate.HookInput) (callgate.LoopAnswer, error) {
	return callgate.LoopAnswer{IsLoop: asked.Run.Rounds > 50, Reason: "nothing new", Confidence: 0.9}, nil
}

func (everything) TurnStarted(context.Context, *callgate.HookInput)   {}
func (everything) TurnFinished(context.Context, *callgate.HookInput)  {}
func (everything) LoopSuspected(context.Context, *callgate.HookInput) {}

func TestAnObjectIsAHookOfEveryPointThatItHasAMethodFor(t *testing.T) {
	s := newSide(t)
	hooks := s.hooks(func(h *callgate.Hooks) {
		h.Add("all", everything{})
		h.Add("audit", audit{})
	})
	points := func(at int) string { return fmt.Sprint(s.Hooks.Hellos[0].GetHooks()[at].GetPoints()) }
	s.Do(func() {
		equal(t, "all", points(0), "[HOOK_POINT_BEFORE_TOOL_CALL HOOK_POINT_AFTER_TOOL_CALL HOOK_POINT_AFTER_TOOL_FAILURE "+
			"HOOK_POINT_APPROVAL_REQUESTED HOOK_POINT_TURN_STARTED HOOK_POINT_TURN_FINISHED HOOK_POINT_LOOP_SUSPECTED HOOK_POINT_LOOP_DIAGNOSE]")
		equal(t, "audit", points(1), "[HOOK_POINT_BEFORE_TOOL_CALL HOOK_POINT_AFTER_TOOL_CALL]")
	})
	for _, c := range []struct {
		asked  callgate.HookInput
		wanted any
	}{
		{callgate.HookInput{HookID: "audit", Point: callgate.PointBeforeToolCall}, callgate.Before{}},
		{callgate.HookInput{HookID: "all", Point: callgate.PointAfterToolCall}, callgate.After{Result: "polished", Context: "c", Suppress: true}},
		{callgate.HookInput{Point: callgate.PointAfterToolFailure}, callgate.After{}},
		{callgate.HookInput{Point: callgate.PointApprovalRequested, Approval: &callgate.Approval{Tool: "read_mail"}}, callgate.ApprovalAnswer{Says: "approve"}},
		{callgate.HookInput{Point: callgate.PointApprovalRequested, Approval: &callgate.Approval{}}, callgate.ApprovalAnswer{}},
		{callgate.HookInput{Point: callgate.PointLoopDiagnose, Run: callgate.Run{Rounds: 51}}, callgate.LoopAnswer{IsLoop: true, Reason: "nothing new", Confidence: 0.9}},
		{callgate.HookInput{Point: callgate.PointTurnStarted}, nil},
	} {
		found, err := callgatetest.AskHook(patient(t), hooks, c.asked)
		if err != nil || !reflect.DeepEqual(found, c.wanted) {
			t.Errorf("%+v: %+v, %v", c.asked.Point, found, err)
		}
	}
	_, err := callgatetest.AskHook(patient(t), hooks, callgate.HookInput{Point: callgate.PointBeforeToolCall})
	isKind(t, err, callgate.ErrNotFound)
}

func TestHookThatCannotBeIsRefusedWhereItIsStarted(t *testing.T) {
	none := func(context.Context, *callgate.HookInput) (callgate.BeforeAnswer, error) { return nil, nil }
	for name, declare := range map[string]func(*callgate.Hooks){
		"twice":     func(h *callgate.Hooks) { h.Before("a", none); h.Before("a", none) },
		"no method": func(h *callgate.Hooks) { h.Add("a", struct{}{}) },
		"no time":   func(h *callgate.Hooks) { h.Before("a", none, callgate.WithHookTimeout(0)) },
		"no mode":   func(h *callgate.Hooks) { h.Before("a", none, callgate.OnHookFailure("perhaps")) },
	} {
		t.Run(name, func(t *testing.T) {
			hooks, err := callgate.NewHooks(newSide(t).options()...)
			if err != nil {
				t.Fatal(err)
			}
			declare(hooks)
			isKind(t, hooks.Start(), callgate.ErrDefinition)
		})
	}
}
