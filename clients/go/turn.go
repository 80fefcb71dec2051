// The handle of one turn, and the way of its events to whoever reads them.

package callgate

import (
	"context"
	"io"
	"iter"
	"sync"
)

// Events that are not kept are dropped when so many wait to be read.
const lossyEventsMax = 1_024

// A turnSource is what carries the events of one turn to its handle. Methods do not block.
type turnSource interface {
	// cancel cancels the turn, soon and in the background.
	cancel(reason string)
	// detach wants no more events; the turn goes on.
	detach()
}

// Turn is one turn that was begun or taken up. For one reader at a time.
//
// The context that it was begun with is its own: when that is done before the turn has ended, the
// turn is cancelled, and reading fails. Leaving it unread does not cancel it: call Cancel or Detach.
type Turn struct {
	id     string
	feed   *turnFeed
	source turnSource
	stop   func() bool
}

// ID is the id of the turn.
func (t *Turn) ID() string { return t.id }

// Next is the next event; io.EOF after the last. With EndOnSuspend that may be TurnSuspended.
//
// Fails with what the turn was refused with, or with ErrConnectionLost if the sidecar stayed away;
// the turn may go on then.
func (t *Turn) Next() (TurnEvent, error) {
	event, err := t.feed.next()
	if err != nil {
		t.stop()
	}
	return event, err
}

// Events are the events that were not read yet, to range over. An error is the last of them.
func (t *Turn) Events() iter.Seq2[TurnEvent, error] {
	return func(yield func(TurnEvent, error) bool) {
		for {
			event, err := t.Next()
			if err == io.EOF || !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Wait reads to the end and returns how the turn ended.
//
// Fails as Next does, and with ErrSuspended where EndOnSuspend was asked for and people are awaited.
func (t *Turn) Wait() (*TurnResult, error) {
	for {
		if _, err := t.Next(); err == io.EOF {
			return t.feed.ended()
		} else if err != nil {
			return nil, err
		}
	}
}

// Cancel cancels the turn and its run, in the background. Its last event tells when that is done.
func (t *Turn) Cancel(reason string) { t.source.cancel(reason) }

// Detach wants no more events here; the turn goes on. Client.AttachTurn takes it up again.
func (t *Turn) Detach() {
	t.stop()
	t.source.detach()
	t.feed.fail(newError(ErrClosed, "this turn is no longer read here; it goes on"))
}

// bind makes the turn end with its context.
func (t *Turn) bind(ctx context.Context) {
	t.stop = context.AfterFunc(ctx, func() {
		if t.feed.isOver() {
			return
		}
		reason := "the orchestrator cancelled"
		if cause := context.Cause(ctx); cause != nil && cause != context.Canceled {
			reason = cutText(cause.Error(), 1_024)
		}
		t.source.cancel(reason)
		t.source.detach()
		t.feed.fail(contextError(ctx))
	})
}

// contextError is the Error for a context that is done.
func contextError(ctx context.Context) *Error {
	kind := ErrCancelled
	if ctx.Err() == context.DeadlineExceeded {
		kind = ErrDeadlineExceeded
	}
	made := newError(kind, ctx.Err().Error())
	made.cause = context.Cause(ctx)
	return made
}

// turnFeed are events on their way. Never holds up who brings them: events that are not kept are
// dropped when the reader falls behind; kept ones are few by their nature, and none is ever dropped.
type turnFeed struct {
	mu        sync.Mutex
	events    []TurnEvent
	wake      chan struct{}
	lostBytes map[string]uint64
	result    *TurnResult
	suspended *Error
	err       error
}

func newTurnFeed() *turnFeed {
	return &turnFeed{wake: make(chan struct{}, 1), lostBytes: map[string]uint64{}}
}

func (f *turnFeed) put(events []TurnEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, event := range events {
		if f.err != nil {
			return
		}
		printed, isOutput := event.(CallOutput)
		if event.About().Sequence == 0 && len(f.events) >= lossyEventsMax {
			if isOutput {
				f.lostBytes[printed.CallID] += uint64(len(printed.Data)) + printed.DroppedBytes
			}
			continue
		}
		if isOutput && f.lostBytes[printed.CallID] > 0 {
			// What was dropped here is counted into the next output that is kept.
			printed.DroppedBytes += f.lostBytes[printed.CallID]
			delete(f.lostBytes, printed.CallID)
			event = printed
		}
		f.events = append(f.events, event)
		if completed, isLast := event.(TurnCompleted); isLast {
			f.result = completed.Result
		}
	}
	f.poke()
}

// fail: no more will come.
func (f *turnFeed) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.result == nil && f.err == nil && f.suspended == nil {
		f.err = err
	}
	f.poke()
}

// suspend: no more will come here, and the turn goes on.
func (f *turnFeed) suspend(why *Error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.result == nil && f.err == nil {
		f.suspended = why
	}
	f.poke()
}

func (f *turnFeed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *turnFeed) isOver() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.result != nil || f.err != nil || f.suspended != nil
}

func (f *turnFeed) next() (TurnEvent, error) {
	for {
		f.mu.Lock()
		switch {
		case len(f.events) > 0:
			event := f.events[0]
			f.events = f.events[1:]
			f.mu.Unlock()
			return event, nil
		case f.result != nil || f.suspended != nil:
			f.mu.Unlock()
			return nil, io.EOF
		case f.err != nil:
			err := f.err
			f.mu.Unlock()
			return nil, err
		}
		f.mu.Unlock()
		<-f.wake
	}
}

// ended is how the turn ended, once all events are read.
func (f *turnFeed) ended() (*TurnResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.result != nil {
		return f.result, nil
	}
	return nil, f.suspended
}
