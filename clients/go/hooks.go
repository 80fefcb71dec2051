// A process of hooks: is asked before and after calls of every executor.
//
// Decides nothing by itself: what its functions say is one voice among rules, the mode and people.

package callgate

import (
	"context"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Hooks is a hook process's connection to the sidecar.
//
// Add hooks, then Start, Serve or Run. A lost connection is made again; until then the sidecar counts
// these hooks as failing. Close takes them along.
type Hooks struct {
	options    *options
	dialer     *dialer
	instanceID string

	mu       sync.Mutex
	specs    []*hookSpec
	handlers map[string]map[HookPoint]hookFunc
	problem  error
	stream   *hookStream
	// Takes no more hooks: whoever owns these has started without them.
	sealed bool
	closed bool
}

// hookFunc runs one function of the user's, and says what it answered.
type hookFunc func(ctx context.Context, asked *HookInput) (any, error)

// NewHooks makes one. Without an endpoint it is at the control.sock beside the sidecar's socket; over TCP
// it needs the credential of a hook. Fails if the endpoint is none.
func NewHooks(given ...Option) (*Hooks, error) {
	options := newOptions(given)
	where, err := resolveControlEndpoint(options.endpoint, options.env)
	if err != nil {
		return nil, err
	}
	if options.maxConcurrency < 1 {
		return nil, invalid("the concurrency must be at least 1")
	}
	instanceID := options.instanceID
	if instanceID == "" {
		instanceID = newID()
	}
	return &Hooks{
		options: options, dialer: options.dialer(where), instanceID: instanceID,
		handlers: map[string]map[HookPoint]hookFunc{},
	}, nil
}

// Before asks the function before every call that is meant.
func (h *Hooks) Before(id string, function BeforeHook, given ...HookOption) {
	h.add(id, []HookPoint{PointBeforeToolCall}, beforeFunc(function), given)
}

// After asks the function after every call that an executor answered with success; see AfterFailures.
func (h *Hooks) After(id string, function AfterHook, given ...HookOption) {
	h.add(id, []HookPoint{PointAfterToolCall}, afterFunc(function), given)
}

// ApprovalRequested asks the function about every approval that begins to wait.
func (h *Hooks) ApprovalRequested(id string, function ApprovalHook, given ...HookOption) {
	h.add(id, []HookPoint{PointApprovalRequested}, approvalFunc(function), given)
}

// LoopDiagnose asks the function whether a run is in a loop.
func (h *Hooks) LoopDiagnose(id string, function LoopHook, given ...HookOption) {
	h.add(id, []HookPoint{PointLoopDiagnose}, loopFunc(function), given)
}

// TurnStarted tells the function of every turn that begins.
func (h *Hooks) TurnStarted(id string, function Observer, given ...HookOption) {
	h.add(id, []HookPoint{PointTurnStarted}, observerFunc(function), given)
}

// TurnFinished tells the function of every turn that ended.
func (h *Hooks) TurnFinished(id string, function Observer, given ...HookOption) {
	h.add(id, []HookPoint{PointTurnFinished}, observerFunc(function), given)
}

// LoopSuspected tells the function of every hit of the loop detector.
func (h *Hooks) LoopSuspected(id string, function Observer, given ...HookOption) {
	h.add(id, []HookPoint{PointLoopSuspected}, observerFunc(function), given)
}

func (h *Hooks) add(id string, points []HookPoint, function hookFunc, given []HookOption) {
	spec := &hookSpec{points: points}
	for _, option := range given {
		option(spec)
	}
	handlers := map[HookPoint]hookFunc{}
	for _, point := range spec.points {
		handlers[point] = function
	}
	h.addAll(id, points, handlers, given)
}

// addAll keeps the first thing that is wrong for Start, so that hooks can be added without a check each.
func (h *Hooks) addAll(id string, points []HookPoint, handlers map[HookPoint]hookFunc, given []HookOption) {
	spec := &hookSpec{id: id, points: points, timeout: 5 * time.Second, onFailure: FailureDenies}
	for _, option := range given {
		option(spec)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	problem := ""
	switch {
	case h.stream != nil || h.sealed:
		problem = "the hooks have started"
	case len(spec.points) == 0:
		problem = "it has no point at which it is asked"
	case h.handlers[id] != nil:
		problem = "there is a hook of that id already"
	case spec.timeout <= 0:
		problem = "its timeout must be more than zero"
	case hookFailureMode(spec.onFailure) == 0:
		problem = "there is no such failure mode"
	}
	if problem != "" {
		if h.problem == nil {
			h.problem = newError(ErrDefinition, "the hook `"+id+"`: "+problem)
		}
		return
	}
	h.specs = append(h.specs, spec)
	h.handlers[id] = handlers
}

// Start begins to connect, and returns at once. Fails with what is wrong with a hook, or if it is closed.
func (h *Hooks) Start() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return newError(ErrClosed, "the hooks are closed")
	}
	if h.stream != nil || h.problem != nil {
		return h.problem
	}
	h.stream = newHookStream(h.dialer, h.specs, h.handlers, h.instanceID, h.options)
	go h.stream.run()
	return nil
}

func (h *Hooks) started() (*hookStream, error) {
	if err := h.Start(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stream, nil
}

// WaitReady starts the hooks and returns when the sidecar has taken them.
//
// Fails when ctx is done, with ErrInvalidRequest if a hook was refused, or with what no other try can help.
func (h *Hooks) WaitReady(ctx context.Context) error {
	stream, err := h.started()
	if err != nil {
		return err
	}
	select {
	case <-stream.ready.wait():
		return nil
	case <-stream.ended:
		if stream.err != nil {
			return stream.err
		}
		return newError(ErrClosed, "the hooks were closed")
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// Serve answers until ctx is done, then closes. Fails as WaitReady does.
func (h *Hooks) Serve(ctx context.Context) error {
	stream, err := h.started()
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-stream.ended:
	}
	_ = h.Close()
	return stream.err
}

// Run is Serve until SIGTERM or SIGINT too. For the main program of a hook process.
func (h *Hooks) Run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return h.Serve(ctx)
}

// Close takes the hooks along and disconnects. May be called twice.
func (h *Hooks) Close() error {
	h.mu.Lock()
	h.closed = true
	stream := h.stream
	h.mu.Unlock()
	if stream == nil {
		return nil
	}
	stream.close()
	late := time.AfterFunc(closeTimeout, stream.stop)
	<-stream.ended
	late.Stop()
	return nil
}
