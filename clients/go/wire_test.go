// Status, names, endpoints, waits, paths and the reading of events, each on its own.

package callgate

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"callgate.invalid/clients/go/internal/pb"
)

func withDetail(t *testing.T, code codes.Code, detail proto.Message) error {
	t.Helper()
	packed, err := anypb.New(detail)
	if err != nil {
		t.Fatal(err)
	}
	state := status.New(code, "words").Proto()
	state.Details = append(state.Details, packed)
	return status.FromProto(state).Err()
}

func TestStatusDecidesWithoutADetailAndTheReasonWithOne(t *testing.T) {
	for code, kind := range kindByStatus {
		if found := errorFromGRPC(status.Error(code, "words")); !found.Is(kind) || found.Message != "words" {
			t.Errorf("%v: %v", code, found)
		}
	}
	after := uint32(1_500)
	found := errorFromGRPC(withDetail(t, codes.InvalidArgument, &pb.ErrorDetail{
		Reason: pb.ErrorReason_ERROR_REASON_LIMIT_EXCEEDED, Code: "limit_exceeded", RetryAfterMs: &after,
		Violations: []*pb.FieldViolation{{Field: "calls[1]"}}, Limit: &pb.LimitViolation{Name: "calls_max", Allowed: 1, Actual: 2},
	}))
	if !found.Is(ErrLimitExceeded) || found.RetryAfter != 1500*time.Millisecond || !found.Retryable ||
		found.Violations[0] != (FieldViolation{"calls[1]", "invalid_request", ""}) || *found.Limit != (LimitViolation{"calls_max", 1, 2}) {
		t.Errorf("%+v", found)
	}
	tool := errorFromGRPC(withDetail(t, codes.NotFound, &pb.ErrorDetail{Reason: pb.ErrorReason_ERROR_REASON_NOT_FOUND, ResourceKind: "tool"}))
	if !tool.Is(ErrToolNotFound) || !tool.Is(ErrNotFound) {
		t.Error(tool)
	}
	newer := errorFromGRPC(withDetail(t, codes.Aborted, &pb.ErrorDetail{Reason: 9_999, Code: "something_new"}))
	if !newer.Is(ErrConflict) || newer.Code != "something_new" {
		t.Error(newer)
	}
	if other := errorFromGRPC(errors.New("no status")); !other.Is(ErrConnectionLost) {
		t.Error(other)
	}
	if page := errorFromGRPC(status.Error(codes.Unavailable, `unexpected content-type "text/html"`)); !page.Is(ErrProtocol) {
		t.Error(page)
	}
}

func TestEveryReasonOfTheContractHasAKindOrAStatus(t *testing.T) {
	for number, name := range pb.ErrorReason_name {
		_, known := kindByReason[pb.ErrorReason(number)]
		switch pb.ErrorReason(number) {
		case pb.ErrorReason_ERROR_REASON_UNSPECIFIED, pb.ErrorReason_ERROR_REASON_INTERNAL, pb.ErrorReason_ERROR_REASON_INVALID_REQUEST,
			pb.ErrorReason_ERROR_REASON_CURSOR_EXPIRED, pb.ErrorReason_ERROR_REASON_CALL_ID_EMPTY, pb.ErrorReason_ERROR_REASON_CALL_ID_DUPLICATE,
			pb.ErrorReason_ERROR_REASON_PROVIDER_MESSAGE_INVALID, pb.ErrorReason_ERROR_REASON_APPROVAL_CHOICE_NOT_ALLOWED,
			pb.ErrorReason_ERROR_REASON_APPROVAL_EDIT_INVALID, pb.ErrorReason_ERROR_REASON_RULE_INVALID:
			// Their status says enough.
		default:
			if !known {
				t.Errorf("%s", name)
			}
		}
	}
}

func TestEveryNameOfThisPackageIsOneOfTheContract(t *testing.T) {
	names := map[string]bool{
		"risk":    enumNumber(pb.RiskLevel(0), Dangerous) == pb.RiskLevel_RISK_LEVEL_DANGEROUS,
		"kind":    enumNumber(pb.ToolKind(0), KindInteract) == pb.ToolKind_TOOL_KIND_INTERACT,
		"mode":    enumNumber(pb.Mode(0), ModeAcceptEdits) == pb.Mode_MODE_ACCEPT_EDITS,
		"policy":  enumNumber(pb.BatchPolicy(0), EagerSafe) == pb.BatchPolicy_BATCH_POLICY_EAGER_SAFE,
		"choice":  enumNumber(pb.ApprovalChoice(0), ChooseCancelTurn) == pb.ApprovalChoice_APPROVAL_CHOICE_CANCEL_TURN,
		"verdict": enumNumber(pb.PermissionCheckVerdict(0), AskFirm("").says) == pb.PermissionCheckVerdict_PERMISSION_CHECK_VERDICT_ASK_FIRM,
		"point":   enumNumber(pb.HookPoint(0), PointLoopDiagnose) == pb.HookPoint_HOOK_POINT_LOOP_DIAGNOSE,
		"channel": enumNumber(pb.OutputChannel(0), ChannelStderr) == pb.OutputChannel_OUTPUT_CHANNEL_STDERR,
		"effect":  enumNumber(pb.CallEffect(0), EffectNotExecuted) == pb.CallEffect_CALL_EFFECT_NOT_EXECUTED,
		"none":    enumNumber(pb.Mode(0), Mode("perhaps")) == 0,
		"reason":  enumName(pb.CancelReason_CANCEL_REASON_DEADLINE, "") == string(CancelledDeadline),
		"state":   callStateOf(pb.CallState_CALL_STATE_AWAITING_APPROVAL) == CallAwaitingApproval,
		"newer":   modeOf(99) == ModePlan && riskOf(99) == Dangerous && kindOf(99) == KindOther && outcomeName(99) == OutcomeError,
		"absent":  riskOf(0) == Safe && kindOf(0) == KindOther && callStateOf(0) == "",
	}
	for name, holds := range names {
		if !holds {
			t.Error(name)
		}
	}
}

func TestEndpointsAndTokensComeFromOptionThenEnvironmentThenDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	for _, c := range []struct {
		argument, environment, wanted, control string
	}{
		{"unix:///run/x.sock", "CALLGATE_ENDPOINT=http://localhost:1", "unix:///run/x.sock", "unix:///run/x.sock"},
		{"", "CALLGATE_ENDPOINT=http://localhost:1", "passthrough:///localhost:1", "passthrough:///localhost:1"},
		{"", "CALLGATE_ENDPOINT=https://[::1]:2", "passthrough:///[::1]:2", "passthrough:///[::1]:2"},
		{"", "CALLGATE_SOCKET_DIR=/s,XDG_RUNTIME_DIR=/r", "unix:///s/callgate.sock", "unix:///s/control.sock"},
		{"", "XDG_RUNTIME_DIR=/r,CALLGATE_DATA_DIR=/d", "unix:///r/callgate/callgate.sock", "unix:///r/callgate/control.sock"},
		{"", "CALLGATE_DATA_DIR=/d", "unix:///d/run/callgate.sock", "unix:///d/run/control.sock"},
		{"", "XDG_STATE_HOME=/t", "unix:///t/callgate/run/callgate.sock", "unix:///t/callgate/run/control.sock"},
		{"", "HOME=/h", "unix:///h/.local/state/callgate/run/callgate.sock", "unix:///h/.local/state/callgate/run/control.sock"},
		{"", "CALLGATE_ENDPOINT=unix:///a/other.sock", "unix:///a/other.sock", "unix:///a/other.sock"},
	} {
		found, err := resolveEndpoint(c.argument, variables(c.environment))
		control, controlErr := resolveControlEndpoint(c.argument, variables(c.environment))
		if err != nil || controlErr != nil || found.target != c.wanted || control.target != c.control {
			t.Errorf("%+v: %s %v, %s %v", c, found.target, err, control.target, controlErr)
		}
	}
	for _, text := range []string{
		"unix:run/x.sock", "unix://host/x", "http://localhost", "http://:1", "ws://localhost:1", "ftp://x", "x", "http://a:1/path",
		"unix:///" + strings.Repeat("a", 107), "http://a:b",
	} {
		var found *Error
		if _, err := parseEndpoint(text); !errors.As(err, &found) || found.Code != "endpoint_invalid" {
			t.Errorf("%s: %v", text, err)
		}
	}
	if err := os.WriteFile(file, []byte(" from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for environment, wanted := range map[string]string{
		"CALLGATE_TOKEN=variable,CALLGATE_TOKEN_FILE=" + file: "variable", "CALLGATE_TOKEN_FILE=" + file: "from-file", "": "",
	} {
		if found, err := resolveToken("", variables(environment)); err != nil || found != wanted {
			t.Errorf("%s: %s %v", environment, found, err)
		}
	}
	if found, _ := resolveToken("argument", variables("CALLGATE_TOKEN=variable")); found != "argument" {
		t.Error(found)
	}
	if err := os.WriteFile(file, []byte("renewed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if found, _ := resolveToken("", variables("CALLGATE_TOKEN_FILE="+file)); found != "renewed" {
		t.Error(found)
	}
}

func variables(text string) environment {
	known := map[string]string{}
	for _, entry := range strings.Split(text, ",") {
		name, value, _ := strings.Cut(entry, "=")
		known[name] = value
	}
	return func(name string) string { return known[name] }
}

func TestWaitsGrowUntilAConnectionWasStableAndAreJitteredBelowTheCap(t *testing.T) {
	now := time.Unix(0, 0)
	made := newWaits(Backoff{Initial: 100 * time.Millisecond, Cap: time.Second, StableAfter: time.Minute})
	made.now, made.random = func() time.Time { return now }, func() float64 { return 0.5 }
	var spans []time.Duration
	for range 6 {
		spans = append(spans, made.lost())
	}
	for at, wanted := range []time.Duration{50, 100, 200, 400, 500, 500} {
		if spans[at] != wanted*time.Millisecond {
			t.Errorf("%v", spans)
		}
	}
	made.ready()
	now = now.Add(59 * time.Second)
	made.ready()
	if span := made.lost(); span != 500*time.Millisecond {
		t.Error(span)
	}
	made.ready()
	now = now.Add(time.Minute)
	if span := made.lost(); span != 50*time.Millisecond {
		t.Error(span)
	}
	if span := (Backoff{}).withDefaults().span(math.MaxInt32); span != 15*time.Second {
		t.Error(span)
	}
	for range 100 {
		if span := between(time.Second, 2*time.Second); span < time.Second || span > 2*time.Second {
			t.Error(span)
		}
	}
}

func TestPathsAreWhatTheyReallyAre(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"a/b", "c"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"c/link": "../a", "c/nowhere": root + "/a/new", "c/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	for value, wanted := range map[string]string{
		root + "/c/link/b": root + "/a/b true", "c/link": root + "/a true", "./c/../a": root + "/a true",
		"c/link/../c": root + "/c true", "c/link/x/y": root + "/a/x/y false", "c/nowhere": root + "/a/new false",
		"c/nowhere/z": root + "/a/new/z false", "": root + " true",
	} {
		fact := pathFact("/p", value, root)
		found := fact.Canonical + " false"
		if fact.Exists != nil && *fact.Exists {
			found = fact.Canonical + " true"
		}
		if found != wanted || fact.Error != "" {
			t.Errorf("%q: %s (%s), wanted %s", value, found, fact.Error, wanted)
		}
	}
	for _, value := range []string{"c/loop", "a\x00b"} {
		if fact := pathFact("/p", value, root); fact.Canonical != "" || fact.Exists != nil || fact.Error == "" {
			t.Errorf("%q: %+v", value, fact)
		}
	}
	facts := resolvePaths([]byte(`{"a":{"b/c":["x","`+root+`"]},"n":1}`), []string{"/a/b~1c/1", "/a/b~1c/9", "/n", "/none", "/a/b~1c/x"}, "")
	if len(facts) != 1 || facts[0].Canonical != root {
		t.Errorf("%+v", facts)
	}
}

func events(epoch uint32, sequences ...uint64) *pb.TurnEvents {
	made := &pb.TurnEvents{TurnId: "t", Epoch: epoch}
	for _, number := range sequences {
		made.Events = append(made.Events, &pb.TurnEvent{
			Sequence: number, Body: &pb.TurnEvent_CallStateChanged{CallStateChanged: &pb.CallStateChanged{CallId: "c"}},
		})
	}
	return made
}

func TestReaderPassesNoEventOnTwiceAndKnowsEpochs(t *testing.T) {
	reader := newTurnReader("t", 0, 0)
	for _, c := range []struct {
		message *pb.TurnEvents
		count   int
	}{
		{events(1, 1, 2), 2}, {events(1, 2, 3), 1}, {events(1, 0, 0), 2}, {events(2, 1), 1}, {events(1, 4), 0},
		// One that is newer than this package is skipped and counted.
		{&pb.TurnEvents{Epoch: 2, Events: []*pb.TurnEvent{{Sequence: 2}}}, 0}, {events(2, 2, 3), 1},
	} {
		if found := reader.take(c.message); len(found) != c.count {
			t.Errorf("%v: %d", c.message, len(found))
		}
	}
	found := reader.take(&pb.TurnEvents{Epoch: 3, Snapshot: &pb.Turn{
		TurnId: "t", LastSequence: 9, Completed: &pb.TurnCompleted{Outcome: pb.TurnOutcome_TURN_OUTCOME_COMPLETED},
	}})
	last, isEnd := found[len(found)-1].(TurnCompleted)
	if len(found) != 2 || !isEnd || last.Sequence != 9 || !reader.completed {
		t.Errorf("%+v", found)
	}
	waiting := newTurnReader("t", 1, 5)
	waiting.take(&pb.TurnEvents{Epoch: 2, Snapshot: &pb.Turn{State: pb.TurnState_TURN_STATE_SUSPENDED, Calls: []*pb.TurnCall{
		{State: pb.CallState_CALL_STATE_AWAITING_APPROVAL, ApprovalId: "a"}, {State: pb.CallState_CALL_STATE_SCHEDULED},
	}}})
	if why := waiting.suspended(); why == nil || len(why.ApprovalIDs) != 1 || why.ApprovalIDs[0] != "a" {
		t.Errorf("%+v", why)
	}
}
