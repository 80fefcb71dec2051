// Carries all turns of one client over one long StreamTurns.
//
// A turn outlives its stream. After a loss it is taken up again behind the last event that was seen.
// A turn that was never seen to be accepted is sent again as it was: its id makes that safe.

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

// muxEntry is a turn on the shared stream. awaySince is when its stream was lost; zero: it has one.
type muxEntry struct {
	request   *pb.RunTurnRequest
	reader    *turnReader
	feed      *turnFeed
	awaySince time.Time
}

type muxStream struct {
	out     *outbox[*pb.StreamTurnsRequest]
	leaving chan struct{}
	timer   *time.Timer
	// How long to wait before the next stream, if the sidecar said so.
	comesBack bool
}

// turnMux is for any goroutine.
type turnMux struct {
	dialer      *dialer
	log         *slog.Logger
	giveUpAfter time.Duration
	waits       *waits
	wanted      *gate
	ctx         context.Context
	stop        context.CancelFunc
	done        chan struct{}

	mu      sync.Mutex
	closed  bool
	started bool
	turns   map[string]*muxEntry
	stream  *muxStream
}

// newTurnMux makes one. A turn whose stream is away for longer than giveUpAfter fails with
// ErrConnectionLost; the turn itself goes on.
func newTurnMux(dialer *dialer, backoff Backoff, giveUpAfter time.Duration, log *slog.Logger) *turnMux {
	ctx, stop := context.WithCancel(context.Background())
	return &turnMux{
		dialer: dialer, log: log, giveUpAfter: giveUpAfter, waits: newWaits(backoff), wanted: newGate(),
		ctx: ctx, stop: stop, done: make(chan struct{}), turns: map[string]*muxEntry{},
	}
}

// run begins a turn.
func (m *turnMux) run(request *pb.RunTurnRequest, feed *turnFeed) error {
	if err := tooLargeRequest(request); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return newError(ErrClosed, "the client is closed")
	}
	if m.turns[request.GetTurnId()] != nil {
		// No conflict of the sidecar's: the turn is well, only its events have a reader.
		return codedError(ErrConflict, "turn_already_followed",
			"this client follows that turn already; read that Turn, or AttachTurn")
	}
	entry := &muxEntry{request, newTurnReader(request.GetTurnId(), 0, 0), feed, time.Now()}
	m.turns[request.GetTurnId()] = entry
	m.wanted.set()
	if m.stream != nil {
		m.ask(m.stream, entry)
	}
	if !m.started {
		m.started = true
		go m.serve()
	}
	return nil
}

// detach wants no more events of a turn.
func (m *turnMux) detach(turnID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.turns[turnID] == nil {
		return
	}
	delete(m.turns, turnID)
	if m.stream != nil {
		m.stream.out.say(&pb.StreamTurnsRequest{
			Body: &pb.StreamTurnsRequest_Detach{Detach: &pb.DetachTurn{TurnId: turnID}},
		})
	}
}

// close ends the stream. Turns go on; their readers are told that the client is closed.
func (m *turnMux) close() {
	m.mu.Lock()
	m.closed = true
	started := m.started
	m.mu.Unlock()
	m.stop()
	if started {
		<-m.done
	}
	m.failAll(newError(ErrClosed, "the client was closed; the turn goes on"))
}

func (m *turnMux) serve() {
	defer close(m.done)
	for {
		select {
		case <-m.wanted.wait():
		case <-m.ctx.Done():
			return
		}
		failure, comesBack := m.attempt()
		if m.ctx.Err() != nil {
			return
		}
		m.log.Info("the stream of turns ended", "error", failure)
		if !isTransient(failure) {
			m.failAll(failure)
		}
		wait := m.waits.lost()
		if comesBack {
			wait = 0
		}
		m.giveUp()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-m.ctx.Done():
			timer.Stop()
			return
		}
	}
}

// giveUp fails the turns whose stream is away for too long.
func (m *turnMux) giveUp() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for id, entry := range m.turns {
		if entry.awaySince.IsZero() {
			entry.awaySince = now
		} else if now.Sub(entry.awaySince) >= m.giveUpAfter {
			delete(m.turns, id)
			entry.feed.fail(newError(ErrConnectionLost, "the sidecar cannot be reached; the turn may go on"))
		}
	}
	if len(m.turns) == 0 {
		m.wanted.clear()
	}
}

// attempt is one stream, from its opening to its end, and whether the sidecar wants us back at once.
func (m *turnMux) attempt() (failure *Error, comesBack bool) {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	client, err := m.dialer.open()
	if err != nil {
		return errorFromGRPC(err), false
	}
	defer client.Close()
	outgoing, err := m.dialer.outgoing(ctx)
	if err != nil {
		return errorFromGRPC(err), false
	}
	rpc, err := pb.NewTurnServiceClient(client).StreamTurns(outgoing)
	if err != nil {
		return errorFromGRPC(err), false
	}
	stream := &muxStream{out: newOutbox[*pb.StreamTurnsRequest](), leaving: make(chan struct{})}
	m.mu.Lock()
	m.stream = stream
	for _, entry := range m.turns {
		m.ask(stream, entry)
	}
	m.mu.Unlock()
	read, written := make(chan error, 1), make(chan error, 1)
	var both sync.WaitGroup
	both.Go(func() { written <- stream.out.write(ctx, rpc.Send, rpc.CloseSend) })
	both.Go(func() { read <- m.read(rpc, stream) })
	err = m.watch(stream, read, written)
	m.mu.Lock()
	m.stream = nil
	if stream.timer != nil {
		stream.timer.Stop()
	}
	comesBack = stream.comesBack
	m.mu.Unlock()
	cancel()
	both.Wait()
	return errorFromGRPC(err), comesBack
}

func (m *turnMux) watch(stream *muxStream, read, written <-chan error) error {
	select {
	case err := <-read:
		return err
	case <-written:
		// Only the reader learns why a stream ended.
		return readWithin(read, time.Second, "the stream of turns cannot be written to")
	case <-stream.leaving:
		return newError(ErrConnectionLost, "the sidecar told this stream to leave")
	}
}

// readWithin is what a reader ends with, or, if it does not end in time, a loss.
func readWithin(read <-chan error, span time.Duration, otherwise string) error {
	grace := time.NewTimer(span)
	defer grace.Stop()
	select {
	case err := <-read:
		return err
	case <-grace.C:
		return newError(ErrConnectionLost, otherwise)
	}
}

func (m *turnMux) read(rpc pb.TurnService_StreamTurnsClient, stream *muxStream) error {
	for {
		message, err := rpc.Recv()
		if errors.Is(err, io.EOF) {
			return newError(ErrConnectionLost, "the sidecar ended the stream of turns")
		}
		if err != nil {
			return err
		}
		m.waits.ready()
		m.take(stream, message)
	}
}

// ask runs or attaches. Under the lock.
func (m *turnMux) ask(stream *muxStream, entry *muxEntry) {
	if !entry.reader.accepted {
		stream.out.say(&pb.StreamTurnsRequest{Body: &pb.StreamTurnsRequest_Run{Run: entry.request}})
		return
	}
	request := entry.request
	attach := entry.reader.attachRequest(request.GetSessionId(), request.GetView(), request.GetOnSuspend())
	stream.out.say(&pb.StreamTurnsRequest{Body: &pb.StreamTurnsRequest_Attach{Attach: attach}})
}

func (m *turnMux) take(stream *muxStream, message *pb.StreamTurnsResponse) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch body := message.GetBody().(type) {
	case *pb.StreamTurnsResponse_Turn:
		m.takeEvents(body.Turn)
	case *pb.StreamTurnsResponse_Refused:
		m.takeRefusal(stream, body.Refused)
	case *pb.StreamTurnsResponse_Detached:
		m.takeDetached(stream, body.Detached)
	case *pb.StreamTurnsResponse_GoAway:
		m.leave(stream, body.GoAway)
	case *pb.StreamTurnsResponse_Notice:
		m.log.Warn("the sidecar ignored a message", "code", body.Notice.GetCode(), "why", body.Notice.GetMessage())
	}
}

func (m *turnMux) takeEvents(message *pb.TurnEvents) {
	entry := m.turns[message.GetTurnId()]
	if entry == nil {
		return
	}
	entry.awaySince = time.Time{}
	if events := entry.reader.take(message); len(events) > 0 {
		entry.feed.put(events)
	}
	if entry.reader.completed {
		delete(m.turns, message.GetTurnId())
	}
}

func (m *turnMux) takeRefusal(stream *muxStream, message *pb.TurnRefused) {
	entry := m.turns[message.GetTurnId()]
	if entry == nil {
		return
	}
	refusal := errorFromMessage(message.GetError())
	if refusal.Is(ErrNotFound) && entry.reader.accepted {
		entry.reader.startAgain()
		m.ask(stream, entry)
		return
	}
	delete(m.turns, message.GetTurnId())
	entry.feed.fail(refusal)
}

func (m *turnMux) takeDetached(stream *muxStream, message *pb.TurnDetached) {
	entry := m.turns[message.GetTurnId()]
	if entry == nil {
		return
	}
	if message.GetError() != nil {
		// We were too slow; nothing is lost, the events are kept.
		m.ask(stream, entry)
		return
	}
	delete(m.turns, message.GetTurnId())
	suspended := entry.reader.suspended()
	if suspended != nil && entry.request.GetOnSuspend() == pb.OnSuspend_ON_SUSPEND_END {
		entry.feed.suspend(suspended)
		return
	}
	entry.feed.fail(codedError(ErrConflict, "turn_taken_over", "another stream took the turn over"))
}

// leave moves to a new stream within the span that the sidecar named.
func (m *turnMux) leave(stream *muxStream, goAway *pb.GoAway) {
	if stream.timer != nil {
		return
	}
	wait := between(time.Duration(goAway.GetReconnectMinMs())*time.Millisecond,
		time.Duration(goAway.GetReconnectMaxMs())*time.Millisecond)
	stream.comesBack = goAway.GetReconnectMaxMs() > 0
	stream.timer = time.AfterFunc(wait, func() { close(stream.leaving) })
}

func (m *turnMux) failAll(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, entry := range m.turns {
		delete(m.turns, id)
		entry.feed.fail(err)
	}
}
