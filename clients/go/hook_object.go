// A hook as an object: of every point that it has a method for.

package callgate

import "context"

// The methods of a hook as an object, named as the points.
type (
	// BeforeToolCaller is asked before calls.
	BeforeToolCaller interface {
		BeforeToolCall(ctx context.Context, asked *HookInput) (BeforeAnswer, error)
	}
	// AfterToolCaller is asked after calls that succeeded.
	AfterToolCaller interface {
		AfterToolCall(ctx context.Context, asked *HookInput) (AfterAnswer, error)
	}
	// AfterToolFailer is asked after calls that the executor answered with an error.
	AfterToolFailer interface {
		AfterToolFailure(ctx context.Context, asked *HookInput) (AfterAnswer, error)
	}
	// ApprovalAnswerer is asked about approvals that begin to wait.
	ApprovalAnswerer interface {
		ApprovalRequested(ctx context.Context, asked *HookInput) (ApprovalAnswer, error)
	}
	// LoopDiagnoser is asked whether a run is in a loop.
	LoopDiagnoser interface {
		LoopDiagnose(ctx context.Context, asked *HookInput) (LoopAnswer, error)
	}
	// TurnStartObserver is told of turns that begin.
	TurnStartObserver interface {
		TurnStarted(ctx context.Context, told *HookInput)
	}
	// TurnFinishObserver is told of turns that ended.
	TurnFinishObserver interface {
		TurnFinished(ctx context.Context, told *HookInput)
	}
	// LoopObserver is told of hits of the loop detector.
	LoopObserver interface {
		LoopSuspected(ctx context.Context, told *HookInput)
	}
)

// Add makes one hook of an object: of every point that it has a method of the same name for. A matcher is
// looked at where there is a call.
func (h *Hooks) Add(id string, object any, given ...HookOption) {
	handlers := map[HookPoint]hookFunc{}
	if hook, ok := object.(BeforeToolCaller); ok {
		handlers[PointBeforeToolCall] = beforeFunc(hook.BeforeToolCall)
	}
	if hook, ok := object.(AfterToolCaller); ok {
		handlers[PointAfterToolCall] = afterFunc(hook.AfterToolCall)
	}
	if hook, ok := object.(AfterToolFailer); ok {
		handlers[PointAfterToolFailure] = afterFunc(hook.AfterToolFailure)
	}
	if hook, ok := object.(ApprovalAnswerer); ok {
		handlers[PointApprovalRequested] = approvalFunc(hook.ApprovalRequested)
	}
	if hook, ok := object.(LoopDiagnoser); ok {
		handlers[PointLoopDiagnose] = loopFunc(hook.LoopDiagnose)
	}
	if hook, ok := object.(TurnStartObserver); ok {
		handlers[PointTurnStarted] = observerFunc(hook.TurnStarted)
	}
	if hook, ok := object.(TurnFinishObserver); ok {
		handlers[PointTurnFinished] = observerFunc(hook.TurnFinished)
	}
	if hook, ok := object.(LoopObserver); ok {
		handlers[PointLoopSuspected] = observerFunc(hook.LoopSuspected)
	}
	var points []HookPoint
	for _, point := range hookPoints {
		if handlers[point] != nil {
			points = append(points, point)
		}
	}
	h.addAll(id, points, handlers, given)
}

var hookPoints = []HookPoint{
	PointBeforeToolCall, PointAfterToolCall, PointAfterToolFailure, PointApprovalRequested, PointTurnStarted,
	PointTurnFinished, PointLoopSuspected, PointLoopDiagnose,
}

func beforeFunc(function BeforeHook) hookFunc {
	return func(ctx context.Context, asked *HookInput) (any, error) {
		answer, err := function(ctx, asked)
		if err != nil {
			return nil, err
		}
		switch said := answer.(type) {
		case nil:
			return Before{}, nil
		case *Before:
			if said == nil {
				return Before{}, nil
			}
		case *HookOutput:
			if said == nil {
				return Before{}, nil
			}
		}
		return answer.before(), nil
	}
}

func afterFunc(function AfterHook) hookFunc {
	return func(ctx context.Context, asked *HookInput) (any, error) {
		answer, err := function(ctx, asked)
		if err != nil {
			return nil, err
		}
		switch said := answer.(type) {
		case nil:
			return After{}, nil
		case *After:
			if said == nil {
				return After{}, nil
			}
		case *AfterOutput:
			if said == nil {
				return After{}, nil
			}
		}
		return answer.after(), nil
	}
}

func approvalFunc(function ApprovalHook) hookFunc {
	return func(ctx context.Context, asked *HookInput) (any, error) { return function(ctx, asked) }
}

func loopFunc(function LoopHook) hookFunc {
	return func(ctx context.Context, asked *HookInput) (any, error) { return function(ctx, asked) }
}

func observerFunc(function Observer) hookFunc {
	return func(ctx context.Context, told *HookInput) (any, error) {
		function(ctx, told)
		return nil, nil
	}
}
