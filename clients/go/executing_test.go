// An executor that runs calls: context, results, progress, output, slots, registration, checks.

package callgate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/internal/pb"
)

func TestContextCarriesWhatTheSidecarSent(t *testing.T) {
	s := newSide(t)
	seen := make(chan *callgate.Call, 1)
	s.executor([]*callgate.Definition{plain("look", func(ctx context.Context) (string, error) {
		seen <- callgate.CallFromContext(ctx)
		return "", nil
	})})
	s.result(s.dispatch("look", "", func(request *pb.ExecuteRequest) {
		request.CallId, request.TimeoutMs = "call-1", 60_000
		request.Context = &pb.CallContext{
			SessionId: "session", RunId: "run", TurnId: "turn", BatchCallId: "batch", Cwd: "/srv",
			State: &pb.SessionState{SchemaVersion: 3, SessionId: "root", MetadataJson: []byte(`{"n":9007199254740993}`)},
			Trace: &pb.TraceContext{Traceparent: "00-1"},
		}
	}))
	call := <-seen
	equal(t, "ids", strings.Join([]string{call.SessionID, call.RunID, call.TurnID, call.BatchCallID, call.CallID, call.Cwd, call.Traceparent}, " "),
		"session run turn batch call-1 /srv 00-1")
	equal(t, "attempt", call.Attempt, 1)
	equal(t, "state", call.State.SchemaVersion, 3)
	equal(t, "session of the state", call.State.SessionID, "root")
	metadata := call.State.Metadata()
	equal(t, "metadata", fmt.Sprint(metadata), "map[n:9007199254740993]")
	metadata["n"] = 1
	equal(t, "metadata again", fmt.Sprint(call.State.Metadata()), "map[n:9007199254740993]")
	if span, limited := call.TimeRemaining(); !limited || span <= 0 || span > time.Minute {
		t.Errorf("%v %v", span, limited)
	}
}

func TestOutsideOfACallThereIsAnEmptyOne(t *testing.T) {
	call := callgate.CallFromContext(context.Background())
	call.Progress("nowhere", 0.5)
	equal(t, "output", call.Output(callgate.ChannelText, []byte("nowhere")), 0)
	equal(t, "service", call.Services().Get("db"), nil)
	equal(t, "service of none", (&callgate.Call{}).Services().Get("db"), nil)
	if _, limited := call.TimeRemaining(); limited {
		t.Error("it has a limit")
	}
}

type database struct{ id string }

func (d *database) ServiceID() string { return d.id }

func TestServicesAreAWhiteListAndTheFirstOfAnIDStays(t *testing.T) {
	s := newSide(t)
	client := s.executor([]*callgate.Definition{plain("look", func(ctx context.Context) (string, error) {
		db, found := callgate.ServiceOf[*database](ctx, "db")
		_, secret := callgate.ServiceOf[*database](ctx, "secret")
		return fmt.Sprint(found && db != nil, secret, callgate.CallFromContext(ctx).Services().IDs()), nil
	}, callgate.WithServices("db"))})
	first := &database{"db"}
	equal(t, "first", client.Services.Register(first), true)
	equal(t, "second", client.Services.Register(&database{"db"}), false)
	equal(t, "secret", client.Services.Register(&database{"secret"}), true)
	equal(t, "kept", client.Services.Get("db"), callgate.Service(first))
	found := s.result(s.dispatch("look", "", func(request *pb.ExecuteRequest) {
		request.Context = &pb.CallContext{Services: []string{"db"}}
	})).GetResult()
	equal(t, "seen", text(found), "true false [db]")
}

func TestWhatHandlersDoBecomesTheirResult(t *testing.T) {
	s := newSide(t)
	s.executor([]*callgate.Definition{
		plain("domain", func(context.Context) (string, error) {
			return "", &callgate.ToolError{Code: "out_of_flour", Message: "there is no flour", Detail: "shelf 3", Retryable: true, RetryAfter: time.Second, Path: "$.flour", Stop: true}
		}),
		plain("wrapped", func(context.Context) (string, error) {
			return "", fmt.Errorf("baking: %w", callgate.Errorf("out_of_flour", "there is no flour"))
		}),
		plain("thrown", func(context.Context) (string, error) { return "", errors.New("the oven does not heat") }),
		plain("panics", func(context.Context) (string, error) { panic("the oven explodes") }),
		plain("index", func(context.Context) (string, error) { return os.Args[len(os.Args)], nil }),
		plain("exits", func(context.Context) (string, error) { runtime.Goexit(); return "", nil }),
		plain("reserved", func(context.Context) (string, error) { return "", callgate.Errorf("tool_not_found", "mine") }),
		plain("stops", func(context.Context) (*callgate.Result, error) { return callgate.StopWith("that is it"), nil }),
		plain("cancelled", func(context.Context) (string, error) { return "", context.Canceled }),
	})
	for _, c := range []struct{ tool, code, text, detail string }{
		{"domain", "out_of_flour", "there is no flour", "shelf 3"},
		{"wrapped", "out_of_flour", "there is no flour", ""},
		{"thrown", "tool_execution_failed", "the oven does not heat", "*errors.errorString"},
		{"panics", "tool_execution_failed", "the oven explodes", "executing_test.go"},
		{"index", "tool_execution_failed", fmt.Sprintf("runtime error: index out of range [%d] with length %[1]d", len(os.Args)), "executing_test.go"},
		{"exits", "tool_execution_failed", "the handler ended its goroutine", ""},
		{"reserved", "tool_execution_failed", "mine", `"tool_not_found"`},
		{"stops", "", "that is it", ""},
		{"cancelled", "tool_execution_failed", "context canceled", ""},
	} {
		found := s.answer(c.tool, "{}")
		equal(t, c.tool+" code", found.GetError().GetCode(), c.code)
		equal(t, c.tool+" text", text(found), c.text)
		equal(t, c.tool+" stop", found.GetStopFlag(), c.tool == "domain" || c.tool == "stops")
		if !strings.Contains(found.GetError().GetDetail(), c.detail) {
			t.Errorf("%s detail: %s", c.tool, found.GetError().GetDetail())
		}
	}
	advice := s.answer("domain", "{}").GetError()
	equal(t, "retry", advice.GetRetryable() && advice.GetRetryAfterMs() == 1_000 && advice.GetPath() == "$.flour", true)
}

func TestArgumentsThatDoNotFitTheTypesNeverReachTheHandler(t *testing.T) {
	s := newSide(t)
	s.executor([]*callgate.Definition{callgate.Tool("small", "Takes little.", func(_ context.Context, in struct {
		N int8 `json:"n"`
	}) (int8, error) {
		return in.N, nil
	}, callgate.WithRisk(callgate.Safe))})
	found := s.answer("small", `{"n":300}`)
	equal(t, "code", found.GetError().GetCode(), "arguments_rejected")
	equal(t, "path", found.GetError().GetPath(), "$.n")
	equal(t, "text", text(s.answer("small", `{"n":100}`)), "100")
}

func TestResultBeyondTheAgreedSizeIsAnErrorAndTheStreamGoesOn(t *testing.T) {
	s := newSide(t)
	s.Executors.Limits.MaxResultBytes = 10
	s.executor([]*callgate.Definition{callgate.Tool("grow", "Gives much.", func(_ context.Context, in struct {
		Bytes int `json:"bytes"`
	}) (*callgate.Result, error) {
		return callgate.StopWith(strings.Repeat("x", in.Bytes)), nil
	}, callgate.WithRisk(callgate.Safe))})
	large := s.answer("grow", `{"bytes":11}`)
	equal(t, "code", large.GetError().GetCode(), "result_too_large")
	equal(t, "stop", large.GetStopFlag(), true)
	equal(t, "small", text(s.answer("grow", `{"bytes":10}`)), "xxxxxxxxxx")
}

func TestProgressIsCoalescedAndTheNewestWins(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{plain("report", func(ctx context.Context) (string, error) {
		for at := range 100 {
			callgate.CallFromContext(ctx).Progress(fmt.Sprint(at), float64(at))
		}
		<-gate.open
		return "", nil
	})})
	x := s.dispatch("report", "{}")
	s.until(func() bool { return len(x.Progress) > 0 && x.Progress[len(x.Progress)-1].GetMessage() == "99" })
	s.Do(func() {
		if len(x.Progress) > 3 {
			t.Errorf("%d reports", len(x.Progress))
		}
		equal(t, "fraction", x.Progress[len(x.Progress)-1].GetFraction(), 1)
	})
	close(gate.open)
	s.result(x)
}

func TestOutputBeyondItsCreditIsDroppedAndCounted(t *testing.T) {
	s := newSide(t)
	s.Executors.Limits.MaxOutputChunkBytes = 4
	gate := newGated()
	s.executor([]*callgate.Definition{plain("print", func(ctx context.Context) (string, error) {
		call := callgate.CallFromContext(ctx)
		taken := call.Output(callgate.ChannelStdout, []byte("0123456789"))
		gate.began <- struct{}{}
		<-gate.open
		_, _ = fmt.Fprint(call.Writer(callgate.ChannelStderr), "ab")
		return fmt.Sprint(taken), nil
	})})
	x := s.dispatch("print", "{}", func(request *pb.ExecuteRequest) { request.OutputCreditBytes = 6 })
	<-gate.began
	s.Executors.SendAll(&pb.ConnectResponse{Body: &pb.ConnectResponse_OutputCredit{OutputCredit: &pb.OutputCredit{
		Execution: x.Request.GetExecution(), AddedBytes: 8,
	}}})
	s.taken("print")
	close(gate.open)
	equal(t, "taken", text(s.result(x).GetResult()), "6")
	printed := ""
	for _, chunk := range x.Output {
		printed += fmt.Sprintf("%d %s %s %d; ", chunk.GetChunkSequence(), chunk.GetChannel(), chunk.GetData(), chunk.GetDroppedBytes())
	}
	equal(t, "output", printed, "1 OUTPUT_CHANNEL_STDOUT 0123 0; 2 OUTPUT_CHANNEL_STDOUT 45 0; 3 OUTPUT_CHANNEL_STDERR ab 4; ")
}

func TestCallBeyondTheSlotsIsAcceptedAsQueuedAndRunsLater(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{gate.tool("wait")}, callgate.WithConcurrency(1))
	first, second := s.dispatch("wait", "{}"), s.dispatch("wait", "{}")
	s.until(func() bool { return len(second.Accepted) == 1 })
	equal(t, "queued", second.Accepted[0], true)
	close(gate.open)
	s.result(first)
	s.result(second)
	equal(t, "accepted", fmt.Sprint(first.Accepted, second.Accepted), "[false] [true false]")
}

func TestToolsOwnLimitHoldsBackOnlyThatTool(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{
		gate.tool("narrow", callgate.WithMaxConcurrency(1)),
		plain("free", func(context.Context) (string, error) { return "free", nil }),
	})
	first, second := s.dispatch("narrow", "{}"), s.dispatch("narrow", "{}")
	equal(t, "free", text(s.answer("free", "{}")), "free")
	s.until(func() bool { return len(second.Accepted) == 1 })
	equal(t, "queued", second.Accepted[0], true)
	close(gate.open)
	s.result(first)
	s.result(second)
}

func TestCallBeyondSlotsAndQueueIsRejectedAsBusy(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{gate.tool("wait")}, callgate.WithConcurrency(1))
	for range 65 {
		s.dispatch("wait", "{}")
	}
	last := s.dispatch("wait", "{}")
	s.until(func() bool { return last.Rejected != nil })
	equal(t, "reason", last.Rejected.GetReason(), pb.RejectReason_REJECT_REASON_BUSY)
	close(gate.open)
}

func TestSameExecutionAgainNeverBeginsTwice(t *testing.T) {
	s := newSide(t)
	var runs atomic.Int32
	gate := newGated()
	s.executor([]*callgate.Definition{plain("count", func(context.Context) (int32, error) {
		gate.began <- struct{}{}
		<-gate.open
		return runs.Add(1), nil
	})})
	x := s.dispatch("count", "{}")
	<-gate.began
	again := &pb.ConnectResponse{Body: &pb.ConnectResponse_Execute{Execute: x.Request}}
	s.Executors.SendAll(again)
	s.until(func() bool { return len(x.Accepted) == 2 })
	close(gate.open)
	equal(t, "text", text(s.result(x).GetResult()), "1")
}

func TestUnknownToolAndAnotherDefinitionAreRejected(t *testing.T) {
	s := newSide(t)
	s.executor([]*callgate.Definition{plain("known", func(context.Context) (string, error) { return "", nil })})
	other := s.dispatch("known", "{}", func(request *pb.ExecuteRequest) { request.ToolDigest = []byte("another") })
	unknown := s.dispatch("known", "{}", func(request *pb.ExecuteRequest) { request.ToolName, request.ToolDigest = "unknown", []byte("x") })
	s.until(func() bool { return other.Rejected != nil && unknown.Rejected != nil })
	equal(t, "other", other.Rejected.GetReason(), pb.RejectReason_REJECT_REASON_UNKNOWN_TOOL)
	equal(t, "unknown", unknown.Rejected.GetReason(), pb.RejectReason_REJECT_REASON_UNKNOWN_TOOL)
}

func TestUnknownMessageIsIgnoredAndTheStreamGoesOn(t *testing.T) {
	s := newSide(t)
	s.executor([]*callgate.Definition{plain("known", func(context.Context) (string, error) { return "well", nil })})
	newer := &pb.ConnectResponse{}
	newer.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1))
	s.Executors.SendAll(newer)
	equal(t, "text", text(s.answer("known", "{}")), "well")
	equal(t, "hellos", len(s.instance().Hellos), 1)
}

func TestExecutionThatTheSidecarDoesNotKnowIsMuted(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{plain("talk", func(ctx context.Context) (int, error) {
		gate.began <- struct{}{}
		<-gate.open
		return callgate.CallFromContext(ctx).Output(callgate.ChannelText, []byte("too late")), nil
	})})
	x := s.dispatch("talk", "{}")
	<-gate.began
	s.Executors.SendAll(&pb.ConnectResponse{Body: &pb.ConnectResponse_Notice{Notice: &pb.Notice{
		Code: "execution_unknown", About: x.Request.GetExecution().GetExecutionId(),
	}}})
	s.taken("talk")
	close(gate.open)
	equal(t, "taken", text(s.result(x).GetResult()), "0")
}

func TestRefusedToolIsVisibleAndDoesNotRefuseTheOthers(t *testing.T) {
	s := newSide(t)
	s.Executors.Refuse["bad"] = "schema_invalid"
	none := func(context.Context) (string, error) { return "", nil }
	client := s.executor([]*callgate.Definition{plain("bad", none), plain("good", none), plain("good", none)})
	equal(t, "refused", client.Refused()[0].Error.Code+" "+client.Refused()[1].Error.Code, "schema_invalid tool_name_duplicate")
	equal(t, "good", client.Registrations()["good"].Active, true)
	equal(t, "bad", client.Registrations()["bad"].Active, false)
	s.answer("good", "{}")
}

func TestDefinitionSaysWhatTheOptionsSaid(t *testing.T) {
	s := newSide(t)
	s.executor([]*callgate.Definition{callgate.Tool("full", "Has it all.", func(context.Context, map[string]any) (string, error) { return "", nil },
		callgate.WithRisk(callgate.Dangerous), callgate.WithKind(callgate.KindExecute), callgate.SkipPermission(), callgate.LoopExempt(),
		callgate.WithSubject(callgate.Subject{Pointer: "/command", Type: callgate.SubjectCommand, Dialect: "sh"}),
		callgate.WithLoopKey("/a"), callgate.WithSecretPointers("/b"), callgate.WithTimeout(90*time.Second), callgate.Idempotent(),
		callgate.Exclusive(), callgate.WithMaxConcurrency(3), callgate.NotCancellable(), callgate.WithServices("db"),
		callgate.WithVersion("1.2"), callgate.WithAnnotations(map[string]int{"a": 1}),
		callgate.WithPermissionCheck(func(context.Context, map[string]any, callgate.PermissionContext) (callgate.Permission, error) {
			return callgate.Passthrough(), nil
		}))})
	timeout := uint32(90_000)
	wanted := &pb.ToolDefinition{
		Name: "full", Description: "Has it all.", ParametersJson: []byte(`{"type":"object"}`), SchemaDialect: pb.SchemaDialect_SCHEMA_DIALECT_CORE,
		RiskLevel: pb.RiskLevel_RISK_LEVEL_DANGEROUS, Kind: pb.ToolKind_TOOL_KIND_EXECUTE, SkipPermission: true, LoopExempt: true,
		Subject: &pb.Subject{Pointer: "/command", SubjectType: pb.SubjectType_SUBJECT_TYPE_COMMAND, Dialect: "sh"},
		LoopKey: []string{"/a"}, SecretPointers: []string{"/b"}, TimeoutMs: &timeout, Idempotent: true, Exclusive: true, MaxConcurrency: 3,
		HasPermissionCheck: true, Services: []string{"db"}, Version: "1.2", AnnotationsJson: []byte(`{"a":1}`),
	}
	equal(t, "definition", squeeze(s.instance().Tools["full"].String()), squeeze(wanted.String()))
}

func TestMoreToolsThanAHelloTakesAreAllRegistered(t *testing.T) {
	for name, learned := range map[string]bool{"told beforehand": false, "learned from a refusal": true} {
		t.Run(name, func(t *testing.T) {
			s := newSide(t)
			count := 2_500
			if learned {
				s.Executors.Limits.MaxToolsPerMessage, count = 2, 5
			}
			var tools []*callgate.Definition
			for at := range count {
				tools = append(tools, plain(fmt.Sprintf("tool_%04d", at), func(context.Context) (string, error) { return "", nil }))
			}
			client := s.executor(tools)
			equal(t, "registered", len(client.Registrations()), count)
			s.answer(fmt.Sprintf("tool_%04d", count-1), "{}")
			more, err := client.UpdateTools(patient(t), []*callgate.Definition{
				plain("a", func(context.Context) (string, error) { return "", nil }),
				plain("b", func(context.Context) (string, error) { return "", nil }),
			}, "tool_0000", "tool_0001", "tool_0002")
			if err != nil || len(more) != 5 || !more[0].Active || more[4].Active || more[4].Name != "tool_0002" {
				t.Errorf("%+v, %v", more, err)
			}
		})
	}
}

func TestCapacityOfZeroIsToldAndKeptThroughALoss(t *testing.T) {
	s := newSide(t)
	client := s.executor([]*callgate.Definition{plain("idle", func(context.Context) (string, error) { return "", nil })})
	told := func() bool {
		owner := s.Executors.Owner("idle")
		if owner == nil {
			return false
		}
		for _, message := range owner.Stream.Received {
			if update := message.GetCapacityUpdate(); update != nil && update.GetMaxConcurrentExecutions() == 0 {
				return true
			}
		}
		return false
	}
	client.Resize(0)
	s.until(told)
	s.DropStreams()
	s.until(told)
	client.Resize(1)
	s.answer("idle", "{}")
}

func TestWhatAToolSaysOfACallReachesTheSidecar(t *testing.T) {
	s := newSide(t)
	type amount struct {
		Amount int `json:"amount"`
	}
	s.executor([]*callgate.Definition{
		callgate.Tool("spend", "Spends.", func(context.Context, amount) (string, error) { return "", nil },
			callgate.WithPermissionCheck(func(_ context.Context, in amount, asked callgate.PermissionContext) (callgate.Permission, error) {
				switch in.Amount {
				case 1:
					return callgate.Deny("no " + string(asked.Mode) + " " + asked.MatchedRule + asked.Facts[0].Canonical), nil
				case 2:
					return callgate.AskFirm(strings.Repeat("é", 1_000)), nil
				case 3:
					return callgate.Allow(), nil
				case 4:
					return callgate.Permission{}, nil
				case 5:
					panic("broken")
				case 6:
					return callgate.Passthrough(), errors.New("broken")
				}
				return callgate.Passthrough(), nil
			})),
		plain("unasked", func(context.Context) (string, error) { return "", nil }),
	})
	said := map[string]*pb.PermissionCheckResult{}
	ask := func(id, tool, arguments string) {
		s.Executors.SendAll(&pb.ConnectResponse{Body: &pb.ConnectResponse_PermissionCheck{PermissionCheck: &pb.PermissionCheckRequest{
			CheckId: id, ToolName: tool, ArgumentsJson: []byte(arguments), Mode: pb.Mode_MODE_AUTO, MatchedRule: "spend",
			Facts: []*pb.SubjectFact{{Canonical: "/x"}},
		}}})
	}
	for at := 1; at <= 7; at++ {
		ask(fmt.Sprint(at), "spend", fmt.Sprintf(`{"amount":%d}`, at))
	}
	ask("text", "spend", `{"amount":"x"}`)
	ask("unasked", "unasked", `{}`)
	ask("unknown", "unknown", `{}`)
	s.until(func() bool {
		for _, item := range s.Executors.Owner("spend").Stream.Checks {
			said[item.GetCheckId()] = item
		}
		return len(said) == 10
	})
	for id, wanted := range map[string]string{
		"1": "DENY", "2": "ASK_FIRM", "3": "ALLOW", "4": "ASK", "5": "ASK", "6": "ASK", "7": "PASSTHROUGH",
		"text": "ASK", "unasked": "ASK", "unknown": "ASK",
	} {
		equal(t, id, said[id].GetVerdict().String(), "PERMISSION_CHECK_VERDICT_"+wanted)
	}
	equal(t, "message", said["1"].GetReasonForModel(), "no auto spend/x")
	equal(t, "reason", said["2"].GetReasonForUser(), strings.Repeat("é", 512))
}
