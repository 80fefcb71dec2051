// Answers what the sidecar asks about calls before they run: the tool's own check, and paths.
//
// A question has no slot and no result: its one answer goes out, or the sidecar goes on without it.
// Nothing that the user's code throws gets further than the log.

package callgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

const (
	// Most questions that are being answered. The sidecar has a bound of its own, but forgets slow ones.
	questionsMax        = 256
	questionTimeout     = 2 * time.Second
	questionReasonBytes = 1_024
)

type questions struct {
	executor *executor
	log      *slog.Logger
	open     atomic.Int64
}

// check asks a tool. answer is called once, from any goroutine.
func (q *questions) check(request *pb.PermissionCheckRequest, answer func(*pb.PermissionCheckResult)) {
	tool := q.executor.find(request.GetToolName(), request.GetToolDigest())
	if tool == nil || tool.check == nil || !q.begin() {
		answer(checkResult(request, Ask("")))
		return
	}
	go func() {
		defer q.open.Add(-1)
		answer(checkResult(request, q.ask(tool, request)))
	}()
}

func (q *questions) ask(tool *Definition, request *pb.PermissionCheckRequest) (said Permission) {
	timeout := questionTimeout
	if span := request.GetTimeoutMs(); span > 0 {
		timeout = time.Duration(span) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	arguments := request.GetArgumentsJson()
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	said, err := tool.check(ctx, arguments, permissionContextOf(request))
	if err == nil && said.says == "" {
		err = errors.New("no answer")
	}
	if err != nil {
		// The message may quote arguments.
		q.log.Error("the permission check of a tool failed; the call is asked for",
			"tool", tool.name, "type", fmt.Sprintf("%T", err))
		return Ask("")
	}
	return said
}

// resolve looks at the file system, which may be slow. answer is called once, from any goroutine.
func (q *questions) resolve(request *pb.ResolveFactsRequest, answer func(*pb.ResolveFactsResult)) {
	if !q.begin() {
		answer(&pb.ResolveFactsResult{RequestId: request.GetRequestId()})
		return
	}
	go func() {
		defer q.open.Add(-1)
		made := &pb.ResolveFactsResult{RequestId: request.GetRequestId()}
		for _, fact := range resolvePaths(request.GetArgumentsJson(), request.GetPointers(), request.GetCwd()) {
			made.Facts = append(made.Facts, &pb.SubjectFact{
				Pointer: fact.Pointer, Value: fact.Value, Canonical: fact.Canonical,
				Exists: fact.Exists, Error: validText(fact.Error),
			})
		}
		answer(made)
	}()
}

func (q *questions) begin() bool {
	if q.open.Add(1) > questionsMax {
		q.open.Add(-1)
		return false
	}
	return true
}

func permissionContextOf(request *pb.PermissionCheckRequest) PermissionContext {
	made := PermissionContext{
		ToolName:      request.GetToolName(),
		CallID:        request.GetCallId(),
		Mode:          modeOf(request.GetMode()),
		MatchedRule:   request.GetMatchedRule(),
		MatchedSource: enumName(request.GetMatchedSource(), fmt.Sprint(int32(request.GetMatchedSource()))),
		SessionID:     request.GetContext().GetSessionId(),
		RunID:         request.GetContext().GetRunId(),
		TurnID:        request.GetContext().GetTurnId(),
		Cwd:           request.GetContext().GetCwd(),
	}
	for _, fact := range request.GetFacts() {
		made.Facts = append(made.Facts, PathFact{
			fact.GetPointer(), fact.GetValue(), fact.GetCanonical(), fact.Exists, fact.GetError(),
		})
	}
	return made
}

func checkResult(request *pb.PermissionCheckRequest, said Permission) *pb.PermissionCheckResult {
	return &pb.PermissionCheckResult{
		CheckId:        request.GetCheckId(),
		Verdict:        enumNumber(pb.PermissionCheckVerdict(0), said.says),
		ReasonForUser:  cutText(said.reason, questionReasonBytes),
		ReasonForModel: cutText(said.message, questionReasonBytes),
	}
}
