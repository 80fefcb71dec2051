// Runs what the sidecar dispatches, and remembers it until the sidecar has the result.
//
// Every handler has a goroutine of its own, so none can hold up anything else. Knows no sockets:
// what has to be said goes to a link, which only queues it.

package callgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

const (
	queueMin = 64
	// What a hello can list; more could not be resumed.
	inFlightMax = 1_024
	// What a handler that was told to stop gets beyond its grace before it counts as given up.
	giveUpAfter     = 2 * time.Second
	givenUpShownMax = 16
	defaultChunkMax = 64 * 1024
)

const (
	stateQueued   = pb.InFlightState_IN_FLIGHT_STATE_QUEUED
	stateRunning  = pb.InFlightState_IN_FLIGHT_STATE_RUNNING
	stateFinished = pb.InFlightState_IN_FLIGHT_STATE_FINISHED
)

// executorLink is what the executor says. Called under its lock or that of a report; must not block
// and must not call back.
type executorLink interface {
	accepted(x *execution, queued bool)
	rejected(request *pb.ExecuteRequest, reason pb.RejectReason, message string)
	abandoned(x *execution, message string)
	// result is said once per stream; without one it waits for the next welcome.
	result(x *execution)
	cancelAck(ref *pb.ExecutionRef, unknown bool)
	progress(x *execution, report *progressReport)
	// output says whether it is on its way.
	output(x *execution, channel OutputChannel, sequence uint64, data []byte, dropped uint64) bool
}

type activeTool struct {
	tool   *Definition
	digest []byte
}

// executor has the executions of one process.
type executor struct {
	services *Services
	log      *slog.Logger
	link     executorLink
	chunk    atomic.Int64

	mu             sync.Mutex
	maxConcurrency int
	draining       bool
	active         map[string]activeTool
	known          map[executionKey]*execution
	// In order of arrival.
	order         []*execution
	queue         []*execution
	running       int
	runningByTool map[string]int
	// Told to stop, and still in their slots: a goroutine cannot be taken from its handler.
	givenUp     []*execution
	finished    int
	idleWaiters []chan struct{}
}

// newExecutor makes one that runs at most so many handlers at once. The rest waits here, accepted,
// up to as many again and at least 64.
func newExecutor(services *Services, maxConcurrency int, log *slog.Logger) *executor {
	return &executor{
		services: services, log: log, maxConcurrency: maxConcurrency,
		active: map[string]activeTool{}, known: map[executionKey]*execution{}, runningByTool: map[string]int{},
	}
}

func (e *executor) chunkMax() int {
	if size := e.chunk.Load(); size > 0 {
		return int(size)
	}
	return defaultChunkMax
}

// Tools.

// activate: the sidecar took the tool; calls of it come from now on.
func (e *executor) activate(tool *Definition, digest []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active[tool.name] = activeTool{tool, digest}
}

// deactivate: the tool is gone. Executions of it go on.
func (e *executor) deactivate(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.active, name)
}

// keepOnly forgets tools that the sidecar does not have any more.
func (e *executor) keepOnly(names map[string]bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.active {
		if !names[name] {
			delete(e.active, name)
		}
	}
}

// find is the tool that the sidecar means, if it is still this definition.
func (e *executor) find(name string, digest []byte) *Definition {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.findLocked(name, digest)
}

func (e *executor) findLocked(name string, digest []byte) *Definition {
	own := e.active[name]
	if len(own.digest) > 0 && len(digest) > 0 && !bytes.Equal(own.digest, digest) {
		return nil
	}
	return own.tool
}

// What the sidecar says.

// execute takes a call, or says why not. The same one again never begins twice.
func (e *executor) execute(request *pb.ExecuteRequest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if known := e.known[keyOf(request.GetExecution())]; known != nil {
		if known.state == stateFinished {
			e.link.result(known)
		} else {
			e.link.accepted(known, known.state == stateQueued)
		}
		return
	}
	if e.draining {
		e.link.rejected(request, pb.RejectReason_REJECT_REASON_DRAINING, "the executor shuts down")
		return
	}
	tool := e.findLocked(request.GetToolName(), request.GetToolDigest())
	if tool == nil {
		e.link.rejected(request, pb.RejectReason_REJECT_REASON_UNKNOWN_TOOL, "no such tool, or another definition of it")
		return
	}
	canStart := e.canStart(tool)
	if len(e.known) >= inFlightMax || (!canStart && len(e.queue) >= max(queueMin, e.maxConcurrency)) {
		e.link.rejected(request, pb.RejectReason_REJECT_REASON_BUSY, "all slots and the queue are taken")
		return
	}
	made := newExecution(request, tool, e)
	e.known[made.key] = made
	e.order = append(e.order, made)
	e.link.accepted(made, !canStart)
	if canStart {
		e.start(made)
	} else {
		e.queue = append(e.queue, made)
	}
}

// cancel tells a handler to stop. Its one result follows, whatever it turns out to be.
func (e *executor) cancel(ref *pb.ExecutionRef, why *Cancellation, grace time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := e.known[keyOf(ref)]
	e.link.cancelAck(ref, found == nil)
	if found != nil {
		e.requestStop(found, why, grace)
	}
}

// credit: more output may be sent, or none.
func (e *executor) credit(ref *pb.ExecutionRef, added int, stop bool) {
	e.mu.Lock()
	found := e.known[keyOf(ref)]
	e.mu.Unlock()
	if found != nil {
		found.reports.addCredit(added, stop)
	}
}

// acknowledge: the sidecar is done with a result.
func (e *executor) acknowledge(ref *pb.ExecutionRef) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if found := e.known[keyOf(ref)]; found != nil && found.state == stateFinished {
		e.drop(found)
	}
}

// forget: the sidecar wants to hear nothing more of an execution.
func (e *executor) forget(ref *pb.ExecutionRef) {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := e.known[keyOf(ref)]
	if found == nil {
		return
	}
	e.drop(found)
	switch found.state {
	case stateQueued:
		e.unqueue(found)
	case stateRunning:
		e.requestStop(found, &Cancellation{CancelledCall, "the sidecar has given this execution up"}, 0)
	}
}

// mute: nobody takes progress or output of an execution any more. Its result is sent all the same.
func (e *executor) mute(executionID string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.order {
		if x.key.id == executionID {
			x.reports.close()
		}
	}
}

// resize takes more or fewer at once from now on; what runs goes on.
func (e *executor) resize(maxConcurrency int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.maxConcurrency = maxConcurrency
	e.startWaiting()
}

// What the client asks.

func (e *executor) slots() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.maxConcurrency
}

// inFlight is everything that runs or is held, in order of arrival.
func (e *executor) inFlight() []*pb.InFlightExecution {
	e.mu.Lock()
	defer e.mu.Unlock()
	made := make([]*pb.InFlightExecution, 0, len(e.order))
	for _, x := range e.order {
		made = append(made, &pb.InFlightExecution{Execution: x.request.GetExecution(), State: x.state})
	}
	return made
}

// isIdle: nothing runs, and every result is acknowledged.
func (e *executor) isIdle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.known) == 0
}

// sendHeld says every held result, in the order in which they came about.
func (e *executor) sendHeld() {
	e.mu.Lock()
	defer e.mu.Unlock()
	var held []*execution
	for _, x := range e.order {
		if x.state == stateFinished {
			held = append(held, x)
		}
	}
	slices.SortFunc(held, func(a, b *execution) int { return a.finishNumber - b.finishNumber })
	for _, x := range held {
		e.link.result(x)
	}
}

// drain takes nothing new from now on.
func (e *executor) drain() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.draining = true
}

// abandonWaiting gives back everything whose handler has not begun.
func (e *executor) abandonWaiting(message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	waiting := e.queue
	e.queue = nil
	for _, x := range waiting {
		e.drop(x)
		e.link.abandoned(x, message)
	}
}

// stopAll tells every handler to stop.
func (e *executor) stopAll(why *Cancellation) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range slices.Clone(e.order) {
		e.requestStop(x, why, 0)
	}
}

// waitIdle says whether, before ctx was done, nothing ran and every result was acknowledged.
func (e *executor) waitIdle(ctx context.Context) bool {
	e.mu.Lock()
	if len(e.known) == 0 {
		e.mu.Unlock()
		return true
	}
	idle := make(chan struct{})
	e.idleWaiters = append(e.idleWaiters, idle)
	e.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// Inside, under the lock.

func (e *executor) canStart(tool *Definition) bool {
	return e.running < e.maxConcurrency &&
		(tool.maxConcurrency == 0 || e.runningByTool[tool.name] < int(tool.maxConcurrency))
}

func (e *executor) startWaiting() {
	for _, x := range slices.Clone(e.queue) {
		if e.running >= e.maxConcurrency {
			return
		}
		if e.canStart(x.tool) {
			e.unqueue(x)
			e.link.accepted(x, false)
			e.start(x)
		}
	}
}

func (e *executor) unqueue(x *execution) bool {
	at := slices.Index(e.queue, x)
	if at >= 0 {
		e.queue = slices.Delete(e.queue, at, at+1)
	}
	return at >= 0
}

func (e *executor) start(x *execution) {
	x.state = stateRunning
	e.running++
	e.runningByTool[x.tool.name]++
	go e.run(x)
}

func (e *executor) requestStop(x *execution, why *Cancellation, grace time.Duration) {
	if x.state == stateFinished || x.told {
		return
	}
	x.told = true
	x.cancel(why)
	if x.state == stateQueued {
		e.unqueue(x)
		e.settle(x, outcome{stopped: &Stopped{EffectNotExecuted, "cancelled before it began"}})
		return
	}
	x.giveUp = time.AfterFunc(grace+giveUpAfter, func() { e.noteGivenUp(x) })
}

// settle is the one place where an execution gets its outcome.
func (e *executor) settle(x *execution, ended outcome) {
	x.reports.close()
	e.finished++
	x.finishNumber = e.finished
	x.outcome = ended
	x.state = stateFinished
	x.cancel(nil)
	if !x.forgotten {
		e.link.result(x)
	}
}

func (e *executor) drop(x *execution) {
	x.forgotten = true
	delete(e.known, x.key)
	if at := slices.Index(e.order, x); at >= 0 {
		e.order = slices.Delete(e.order, at, at+1)
	}
	if len(e.known) == 0 {
		for _, idle := range e.idleWaiters {
			close(idle)
		}
		e.idleWaiters = nil
	}
}

// Inside, without the lock.

// run is the goroutine of one handler. Whatever the handler does, the execution ends.
func (e *executor) run(x *execution) {
	var ended outcome
	returned := false
	defer func() {
		if !returned {
			failure := error(errors.New("the handler ended its goroutine"))
			if fault := recover(); fault != nil {
				failure = newHandlerPanic(fault)
			}
			e.noteFailure(x, failure)
			ended = outcomeOf(failure, false)
		}
		e.finish(x, ended)
	}()
	answer, err := x.tool.run(x.ctx, x.arguments())
	if err != nil {
		e.mu.Lock()
		told := x.told
		e.mu.Unlock()
		ended = outcomeOf(err, told)
		if ended.stopped == nil {
			e.noteFailure(x, err)
		}
	} else {
		ended = outcome{answer: answer}
	}
	returned = true
}

func (e *executor) noteFailure(x *execution, err error) {
	var domain *ToolError
	if !errors.As(err, &domain) {
		// The message may quote arguments; the sidecar has it.
		e.log.Warn("a tool failed", "tool", x.tool.name, "type", fmt.Sprintf("%T", err))
	}
}

func (e *executor) finish(x *execution, ended outcome) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running--
	e.runningByTool[x.tool.name]--
	if x.giveUp != nil {
		x.giveUp.Stop()
	}
	if x.givenUp {
		e.givenUp = slices.DeleteFunc(e.givenUp, func(other *execution) bool { return other == x })
		e.log.Info("a tool has returned after it was given up", "tool", x.tool.name, "held", e.held())
	}
	e.settle(x, ended)
	e.startWaiting()
}

// noteGivenUp says that a slot is lost until its handler returns, which may be never.
func (e *executor) noteGivenUp(x *execution) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if x.state != stateRunning {
		return
	}
	x.givenUp = true
	e.givenUp = append(e.givenUp, x)
	if len(e.givenUp) < e.maxConcurrency {
		e.log.Warn("slots are held by handlers that were given up", "held", e.held())
		return
	}
	e.log.Error("no call can run until a handler that was given up returns or the process is started anew", "held", e.held())
}

func (e *executor) held() string {
	var names []string
	for _, x := range e.givenUp[:min(len(e.givenUp), givenUpShownMax)] {
		names = append(names, x.tool.name)
	}
	return fmt.Sprintf("%d of %d: %s", len(e.givenUp), e.maxConcurrency, strings.Join(names, ", "))
}
