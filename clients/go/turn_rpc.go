// Carries turns over rpcs of their own, and cancels turns in the background.

package callgate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

const (
	cancelTries   = 3
	cancelTimeout = 5 * time.Second
)

// background are the goroutines of a client that end with it: readers of turns, and cancellations.
type background struct {
	ctx  context.Context
	stop context.CancelFunc
	log  *slog.Logger

	mu      sync.Mutex
	closed  bool
	readers sync.WaitGroup
	cancels sync.WaitGroup
}

func newBackground(log *slog.Logger) *background {
	ctx, stop := context.WithCancel(context.Background())
	return &background{ctx: ctx, stop: stop, log: log}
}

// begin says whether the client is still open; the goroutine counts as one of the group then.
func (b *background) begin(group *sync.WaitGroup) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		group.Add(1)
	}
	return !b.closed
}

// close waits for the cancellations that were begun, bounded, and ends the readers. Turns go on.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	sent := make(chan struct{})
	go func() {
		b.cancels.Wait()
		close(sent)
	}()
	select {
	case <-sent:
	case <-time.After(cancelTimeout):
	}
	b.stop()
	<-sent
	b.readers.Wait()
}

// cancelTurn sends CancelTurn, and again if that may help.
func (b *background) cancelTurn(shared *sharedConn, turnID, sessionID, reason string) {
	if !b.begin(&b.cancels) {
		return
	}
	go func() {
		defer b.cancels.Done()
		request := &pb.CancelTurnRequest{TurnId: turnID, SessionId: sessionID, Reason: validText(reason)}
		for tried := 1; ; tried++ {
			ctx, cancel := context.WithTimeout(b.ctx, cancelTimeout)
			_, err := ask(ctx, shared, turnMethod(pb.TurnServiceClient.CancelTurn), request)
			cancel()
			if err == nil {
				return
			}
			failure := errorFromGRPC(err)
			if tried == cancelTries || !isTransient(failure) {
				b.log.Warn("a turn could not be cancelled", "turn", turnID, "error", failure)
				return
			}
			select {
			case <-time.After(time.Duration(tried) * 100 * time.Millisecond):
			case <-b.ctx.Done():
				return
			}
		}
	}()
}

// rpcTurn is a turn on rpcs of its own: RunTurn, or AttachTurn alone, then AttachTurn after each loss.
type rpcTurn struct {
	background  *background
	shared      *sharedConn
	feed        *turnFeed
	reader      *turnReader
	waits       *waits
	giveUpAfter time.Duration
	sessionID   string
	view        *pb.TurnView
	onSuspend   pb.OnSuspend
	// Nil: only attached.
	request *pb.RunTurnRequest
	stop    context.CancelFunc
}

func (t *rpcTurn) cancel(reason string) {
	t.background.cancelTurn(t.shared, t.reader.turnID, t.sessionID, reason)
}

func (t *rpcTurn) detach() { t.stop() }

// start begins to read.
func (t *rpcTurn) start() error {
	if t.request != nil {
		if err := tooLargeRequest(t.request); err != nil {
			return err
		}
	}
	if !t.background.begin(&t.background.readers) {
		return newError(ErrClosed, "the client is closed")
	}
	ctx, stop := context.WithCancel(t.background.ctx)
	t.stop = stop
	go func() {
		defer t.background.readers.Done()
		defer stop()
		if err := t.read(ctx); err != nil {
			if ctx.Err() != nil {
				err = newError(ErrClosed, "this turn is no longer read here; it goes on")
			}
			t.feed.fail(err)
		}
	}()
	return nil
}

// read reads to the end of the turn, over as many streams as it takes.
func (t *rpcTurn) read(ctx context.Context) error {
	var awaySince time.Time
	for !t.reader.completed {
		came, err := t.readStream(ctx)
		if came {
			awaySince = time.Time{}
		}
		if t.reader.completed {
			return nil
		}
		if suspended := t.reader.suspended(); err == nil && suspended != nil && t.onSuspend == pb.OnSuspend_ON_SUSPEND_END {
			t.feed.suspend(suspended)
			return nil
		}
		failure := newError(ErrConnectionLost, "the stream of the turn ended")
		if err != nil {
			failure = errorFromGRPC(err)
		}
		if failure.Is(ErrNotFound) && t.reader.accepted && t.request != nil {
			t.reader.startAgain()
			continue
		}
		if awaySince.IsZero() {
			awaySince = time.Now()
		}
		if !isTransient(failure) || time.Since(awaySince) >= t.giveUpAfter {
			return failure
		}
		timer := time.NewTimer(t.waits.lost())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
	return nil
}

// readStream reads one stream to its end, and says whether anything came.
func (t *rpcTurn) readStream(ctx context.Context) (came bool, err error) {
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	next, err := t.open(within)
	if err != nil {
		return false, err
	}
	for {
		message, err := next()
		if errors.Is(err, io.EOF) {
			return came, nil
		}
		if err != nil {
			return came, err
		}
		came = true
		t.waits.ready()
		if events := t.reader.take(message); len(events) > 0 {
			t.feed.put(events)
		}
	}
}

func (t *rpcTurn) open(ctx context.Context) (next func() (*pb.TurnEvents, error), err error) {
	conn, err := t.shared.get()
	if err != nil {
		return nil, err
	}
	if ctx, err = t.shared.dialer.outgoing(ctx); err != nil {
		return nil, err
	}
	stub := pb.NewTurnServiceClient(conn)
	if t.request != nil && !t.reader.accepted {
		stream, err := stub.RunTurn(ctx, t.request)
		if err != nil {
			return nil, err
		}
		return func() (*pb.TurnEvents, error) {
			message, err := stream.Recv()
			return message.GetTurn(), err
		}, nil
	}
	stream, err := stub.AttachTurn(ctx, t.reader.attachRequest(t.sessionID, t.view, t.onSuspend))
	if err != nil {
		return nil, err
	}
	return func() (*pb.TurnEvents, error) {
		message, err := stream.Recv()
		return message.GetTurn(), err
	}, nil
}

// muxTurn is a turn on the shared stream.
type muxTurn struct {
	background *background
	shared     *sharedConn
	mux        *turnMux
	turnID     string
	sessionID  string
}

func (t *muxTurn) cancel(reason string) {
	t.background.cancelTurn(t.shared, t.turnID, t.sessionID, reason)
}

func (t *muxTurn) detach() { t.mux.detach(t.turnID) }
