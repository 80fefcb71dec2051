// What handlers give back, and what their errors mean.

package callgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"callgate.invalid/clients/go/internal/pb"
)

func squeezed(message proto.Message) string {
	return strings.Join(strings.Fields(fmt.Sprint(message)), " ")
}

type stringer struct{}

func (stringer) MarshalJSON() ([]byte, error) { panic("broken") }

func TestValuesBecomeWhatTheyMean(t *testing.T) {
	type record struct {
		Name string `json:"name"`
	}
	for _, c := range []struct {
		name   string
		value  any
		wanted string
	}{
		{"text", "a <b>", `contents:{text:"a <b>"}`},
		{"text of a type", Safe, `contents:{text:"safe"}`},
		{"nothing", nil, ``},
		{"empty", struct{}{}, ``},
		{"a nil pointer", (*record)(nil), ``},
		{"a nil result", (*Result)(nil), ``},
		{"an object", record{"<x>"}, `contents:{text:"{\"name\":\"<x>\"}"} structured_json:"{\"name\":\"<x>\"}"`},
		{"a list", []int{1, 2}, `contents:{text:"[1,2]"}`},
		{"a number", json.Number("1.10"), `contents:{text:"1.10"}`},
		{"parts", []Part{Text("a"), JSON{[]int{1}}, Image{[]byte("i"), "image/png"}, Audio{[]byte("s"), "audio/wav"}},
			`contents:{text:"a"} contents:{value_json:"[1]"} contents:{image:{data:"i" mime_type:"image/png"}} contents:{audio:{data:"s" mime_type:"audio/wav"}}`},
		{"documents", []Part{Resource{URI: "u", Text: "t"}, Resource{URI: "u", Blob: []byte("b")}, ResourceLink{URI: "l", SizeBytes: 3}},
			`contents:{resource:{uri:"u" text:"t"}} contents:{resource:{uri:"u" blob:"b"}} contents:{resource_link:{uri:"l" size_bytes:3}}`},
		{"a whole result", Result{Contents: []Part{Text("a")}, Stop: true, Structured: record{"s"}, Metadata: map[string]int{"m": 1}},
			`contents:{text:"a"} stop_flag:true structured_json:"{\"name\":\"s\"}" metadata_json:"{\"m\":1}"`},
		{"stop", StopWith(record{"s"}), `contents:{text:"{\"name\":\"s\"}"} stop_flag:true structured_json:"{\"name\":\"s\"}"`},
		{"broken text", "a\xff", `contents:{text:"a` + "\ufffd" + `"} sanitised:true`},
		{"a real replacement", record{"\ufffd"}, `contents:{text:"{\"name\":\"` + "\ufffd" + `\"}"} structured_json:"{\"name\":\"` + "\ufffd" + `\"}"`},
		{"broken text inside", record{"\xff"}, `contents:{text:"{\"name\":\"\\ufffd\"}"} structured_json:"{\"name\":\"\\ufffd\"}" sanitised:true`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if found := squeezed(seal(resultOf(c.value)).message); found != c.wanted {
				t.Errorf("%s\nwanted %s", found, c.wanted)
			}
		})
	}
}

func TestWhatCannotBeSentIsAnExplicitError(t *testing.T) {
	for name, value := range map[string]any{
		"NaN": math.NaN(), "a function": func() {}, "bytes": []byte("x"), "a broken marshaller": Result{Structured: stringer{}, Stop: true},
		"NaN deep inside":        Result{Structured: map[string]any{"a": []float64{math.Inf(1)}}, Stop: true},
		"structured as a list":   Result{Structured: []int{1}, Stop: true},
		"metadata as a number":   Result{Metadata: 1, Stop: true},
		"too many parts":         Result{Contents: make([]Part, 65), Stop: true},
		"a part that is nothing": Result{Contents: []Part{nil}, Stop: true},
	} {
		found := seal(resultOf(value)).message
		if !found.GetIsError() || found.GetError().GetCode() != codeNotJSON {
			t.Errorf("%s: %v", name, found)
		}
		if _, whole := value.(Result); whole != found.GetStopFlag() {
			t.Errorf("%s: stop %v", name, found.GetStopFlag())
		}
	}
}

func TestErrorsOfHandlersAreBoundedAndKeepTheirCodes(t *testing.T) {
	long := strings.Repeat("é", 10_000)
	found := failed(&ToolError{Code: "own_code", Message: long, Detail: long})
	if len(found.Error.Message) != 4_096 || len(found.Error.Detail) != 16_384 || found.Error.Code != "own_code" {
		t.Errorf("%d %d %s", len(found.Error.Message), len(found.Error.Detail), found.Error.Code)
	}
	for _, code := range []string{"", "Bad", "tool_cancelled", strings.Repeat("a", 65)} {
		made := failed(&ToolError{Code: code, Message: "m"})
		if made.Error.Code != codeFailed || !strings.Contains(made.Error.Detail, fmt.Sprintf("%q", code)) {
			t.Errorf("%q: %+v", code, made.Error)
		}
	}
	if made := failed(&ToolError{Code: "result_too_large"}); made.Error.Code != "result_too_large" {
		t.Errorf("%+v", made.Error)
	}
	if text := cutText("aé€", 4); text != "aé" {
		t.Errorf("%q", text)
	}
}

type unprintable struct{}

func (unprintable) Error() string { panic("broken") }

func TestErrorsThatCannotBePrintedAreStillAnswers(t *testing.T) {
	for _, err := range []error{unprintable{}, errors.New("")} {
		found := outcomeOf(err, false).answer.message
		if found.GetError().GetCode() != codeFailed || found.GetError().GetMessageForModel() != "the tool failed without a message" {
			t.Errorf("%v", found)
		}
	}
}

func TestACallsErrorIsWhatItStandsFor(t *testing.T) {
	for code, kind := range map[string]*Kind{
		"tool_not_found": ErrToolNotFound, "json_invalid": ErrInvalidArguments, "tool_argument_enum": ErrInvalidArguments,
		"arguments_rejected": ErrInvalidRequest, "tool_denied_by_rule": ErrPermissionDenied, "approval_expired": ErrPermissionDenied,
		"tool_batch_rejected": ErrPermissionDenied, "tool_cancelled": ErrCancelled, "tool_timeout": ErrDeadlineExceeded,
		"limit_exceeded": ErrLimitExceeded, "tool_unavailable": ErrUnavailable, "record_not_found": ErrCallFailed,
	} {
		result := &CallResult{IsError: true, Error: &ErrorInfo{Code: code, Message: "m", Retryable: true, RetryAfter: time.Second}}
		var found *Error
		if err := result.Err(); !errors.Is(err, kind) || !errors.As(err, &found) || found.Code != code || !found.Retryable || found.RetryAfter != time.Second {
			t.Errorf("%s: %v", code, err)
		}
	}
	if err := (&CallResult{}).Err(); err != nil {
		t.Error(err)
	}
	var into struct{ A int }
	if err := (&CallResult{Structured: json.RawMessage(`{"a":1}`)}).Decode(&into); err != nil || into.A != 1 {
		t.Errorf("%+v, %v", into, err)
	}
	if err := (&CallResult{Contents: []Part{Text(`{"a":2}`)}}).Decode(&into); err != nil || into.A != 2 {
		t.Errorf("%+v, %v", into, err)
	}
}

func TestCancellationIsTheContextsOwn(t *testing.T) {
	cause := &Cancellation{Reason: CancelledRun, Message: "over"}
	if !errors.Is(cause, context.Canceled) || cause.Error() != "run_ended: over" {
		t.Error(cause)
	}
}

func TestPartsThatAreNewerThanThisPackageAreShownAsSuch(t *testing.T) {
	if found := partOf(&pb.ContentPart{}); found != unknownContent {
		t.Error(found)
	}
}
