// The stream of an executor: opened again and again until it is told to stop.
//
// One goroutine writes, one reads, one pings; the reader waits for nothing else. What must not be
// lost is not in the queue of the writer but in the executor: a result is there until it is
// acknowledged, the tools are there for every hello. So a new stream begins with an empty queue and
// loses nothing. Locks are taken in the order executor, execution, stream, outbox.

package callgate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

const (
	defaultToolsMax    = 1_000
	helloTimeout       = 10 * time.Second
	drainAnswerTimeout = 5 * time.Second
	cancelGrace        = 2 * time.Second
	defaultResultMax   = 1024 * 1024
	defaultMetadataMax = 64 * 1024
)

// A State says where the stream of an executor stands.
type State string

// Where the stream of an executor stands. Idle: there are no tools, or it was not started.
const (
	StateIdle         State = "idle"
	StateConnecting   State = "connecting"
	StateReady        State = "ready"
	StateReconnecting State = "reconnecting"
	StateDraining     State = "draining"
	StateClosed       State = "closed"
)

type executorSettings struct {
	dialer          *dialer
	name            string
	instanceID      string
	backoff         Backoff
	resolveFacts    bool
	log             *slog.Logger
	onState         func(State)
	onRegistrations func([]Registration)
}

// executorStream keeps one executor connected. Implements executorLink.
type executorStream struct {
	executorSettings
	executor  *executor
	questions questions
	waits     *waits
	ready     *gate
	ended     chan struct{}
	ctx       context.Context
	stop      context.CancelFunc
	// Held while a change of state is told, so that changes are told in order.
	telling sync.Mutex

	mu           sync.Mutex
	state        State
	tools        []*Definition
	updates      map[string]*toolUpdate
	resumeToken  string
	conn         *executorConn
	closing      bool
	wasReady     bool
	resultMax    int
	metadataMax  int
	toolsMax     int
	drainRequest *pb.ConnectRequest
	err          error
}

func newExecutorStream(settings executorSettings, executor *executor, tools []*Definition) *executorStream {
	ctx, stop := context.WithCancel(context.Background())
	made := &executorStream{
		executorSettings: settings, executor: executor, waits: newWaits(settings.backoff),
		questions: questions{executor: executor, log: settings.log},
		ready:     newGate(), ended: make(chan struct{}), ctx: ctx, stop: stop,
		state: StateIdle, tools: tools, updates: map[string]*toolUpdate{},
		resultMax: defaultResultMax, metadataMax: defaultMetadataMax, toolsMax: defaultToolsMax,
	}
	executor.link = made
	return made
}

// drain takes nothing new, finishes what runs, gives back what has not begun, and ends. What still
// runs when ctx is done is told to stop.
func (s *executorStream) drain(ctx context.Context, reason string) {
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return
	}
	var span uint32
	if end, limited := ctx.Deadline(); limited {
		span = milliseconds(time.Until(end))
	}
	s.drainRequest = &pb.ConnectRequest{Body: &pb.ConnectRequest_DrainRequest{
		DrainRequest: &pb.DrainRequest{Reason: reason, DrainMs: span},
	}}
	conn := s.welcomedConn()
	if conn != nil {
		conn.out.say(outItem{message: s.drainRequest})
	}
	s.mu.Unlock()
	s.executor.drain()
	s.setState(StateDraining)
	if conn != nil {
		// A sidecar that never answers must not hold up the end.
		within, cancel := context.WithTimeout(ctx, drainAnswerTimeout)
		select {
		case <-conn.drainStarted.wait():
		case <-conn.gone:
		case <-within.Done():
		}
		cancel()
	}
	s.executor.abandonWaiting("the executor shuts down")
	if !s.executor.waitIdle(ctx) {
		s.executor.stopAll(&Cancellation{CancelledShutdown, reason})
		grace, cancel := context.WithTimeout(context.Background(), cancelGrace)
		s.executor.waitIdle(grace)
		cancel()
	}
	s.close()
}

// close ends the stream and does not come back.
func (s *executorStream) close() {
	s.mu.Lock()
	s.closing = true
	conn := s.welcomedConn()
	s.mu.Unlock()
	if conn == nil {
		s.stop()
		return
	}
	conn.out.halfClose()
}

// welcomedConn is the present connection, if the sidecar has answered on it. Under the lock.
func (s *executorStream) welcomedConn() *executorConn {
	if s.conn == nil || !s.conn.welcomed {
		return nil
	}
	return s.conn
}

// run connects again and again. Ends after close, or with what no other try can help.
func (s *executorStream) run() {
	defer close(s.ended)
	s.setState(StateConnecting)
	err := s.keepConnected()
	s.stop()
	s.mu.Lock()
	s.err, s.closing = err, true
	s.mu.Unlock()
	s.failUpdates()
	s.setState(StateClosed)
	if err != nil {
		s.log.Error("the executor has ended", "error", err)
	}
}

func (s *executorStream) keepConnected() error {
	for !s.isClosing() {
		wait, err := s.attempt()
		if err != nil {
			return err
		}
		if s.isClosing() {
			return nil
		}
		s.mu.Lock()
		wasReady := s.wasReady
		s.mu.Unlock()
		if wasReady {
			s.setState(StateReconnecting)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
		}
	}
	return nil
}

func (s *executorStream) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// attempt is one connection, from dialling to its end. It says how long to wait before the next, or
// that there must be none.
func (s *executorStream) attempt() (time.Duration, error) {
	conn, dialled, failure := s.serveOnce()
	s.mu.Lock()
	s.conn = nil
	// The next hello has pieces of its own.
	for id := range conn.rest {
		delete(s.updates, id)
	}
	goAway := conn.goAway
	s.mu.Unlock()
	s.ready.clear()
	conn.end()
	if s.learnsToolsMax(failure) {
		return 0, nil
	}
	if !s.isClosing() {
		if s.isFatal(failure, dialled) {
			return 0, failure
		}
		s.log.Info("the executor stream ended", "error", failure)
	}
	wait := s.waits.lost()
	if goAway == nil || s.isClosing() {
		return wait, nil
	}
	return afterGoAway(goAway)
}

func afterGoAway(goAway *pb.GoAway) (time.Duration, error) {
	if goAway.GetReason() == pb.GoAwayReason_GO_AWAY_REASON_SUPERSEDED {
		return 0, newError(ErrSuperseded, textOr(goAway.GetMessage(), "another process connected as this executor instance"))
	}
	if goAway.GetReconnectMaxMs() == 0 {
		return 0, newError(ErrUnavailable, textOr(goAway.GetMessage(), "the sidecar told this executor not to come back"))
	}
	least := min(goAway.GetReconnectMinMs(), goAway.GetReconnectMaxMs())
	return between(time.Duration(least)*time.Millisecond, time.Duration(goAway.GetReconnectMaxMs())*time.Millisecond), nil
}

func textOr(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

func (s *executorStream) isFatal(failure *Error, dialled bool) bool {
	if failure == nil {
		return false
	}
	if failure.Is(ErrSuperseded) {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wasReady {
		return false
	}
	// Another try cannot help: the configuration is wrong, or the peer is.
	return !dialled || failure.isAny(ErrUnauthenticated, ErrPermissionDenied, ErrProtocol, ErrInvalidRequest)
}

// learnsToolsMax says whether a hello was refused only because its size had to be guessed: nobody
// tells before the welcome.
func (s *executorStream) learnsToolsMax(failure *Error) bool {
	if failure == nil || failure.Limit == nil || failure.Limit.Name != "tools_per_message_max" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	allowed := int(failure.Limit.Allowed)
	if allowed <= 0 || allowed >= s.toolsMax {
		return false
	}
	s.toolsMax = allowed
	return true
}

// serveOnce dials, says hello and serves until the stream ends. dialled is false if it is our own
// configuration that is at fault.
func (s *executorStream) serveOnce() (conn *executorConn, dialled bool, failure *Error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	conn = newExecutorConn()
	client, err := s.dialer.open()
	if err != nil {
		return conn, false, errorFromGRPC(err)
	}
	defer client.Close()
	outgoing, err := s.dialer.outgoing(ctx)
	if err != nil {
		return conn, false, errorFromGRPC(err)
	}
	stream, err := pb.NewExecutorServiceClient(client).Connect(outgoing)
	if err != nil {
		return conn, true, errorFromGRPC(err)
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	welcome, err := s.shakeHands(stream, conn, cancel)
	if err != nil {
		return conn, true, errorFromGRPC(err)
	}
	return conn, true, errorFromGRPC(s.serve(ctx, cancel, stream, conn, welcome))
}

func (s *executorStream) shakeHands(
	stream pb.ExecutorService_ConnectClient, conn *executorConn, cancel func(),
) (*pb.Welcome, error) {
	late := time.AfterFunc(helloTimeout, cancel)
	defer late.Stop()
	hello := s.hello(conn)
	if err := stream.Send(&pb.ConnectRequest{Body: &pb.ConnectRequest_Hello{Hello: hello}}); err != nil && err != io.EOF {
		return nil, err
	}
	first, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil, newError(ErrConnectionLost, "the sidecar ended the stream")
	case err != nil && !late.Stop():
		return nil, newError(ErrConnectionLost, "no welcome came")
	case err != nil:
		return nil, err
	}
	switch body := first.GetBody().(type) {
	case *pb.ConnectResponse_Welcome:
		return body.Welcome, nil
	case *pb.ConnectResponse_GoAway:
		conn.goAway = body.GoAway
		return nil, newError(ErrConnectionLost, textOr(body.GoAway.GetMessage(), "the sidecar is going away"))
	}
	return nil, newError(ErrProtocol, "the first message of the sidecar was no welcome")
}

func (s *executorStream) hello(conn *executorConn) *pb.Hello {
	listed := s.executor.inFlight()
	slots := s.executor.slots()
	s.mu.Lock()
	defer s.mu.Unlock()
	conn.tools = toolBatches(s.tools, s.toolsMax)
	for id := range s.updates {
		conn.updates[id] = true
	}
	capabilities := []pb.ExecutorCapability{
		pb.ExecutorCapability_EXECUTOR_CAPABILITY_RESUME, pb.ExecutorCapability_EXECUTOR_CAPABILITY_OUTPUT,
	}
	if s.resolveFacts {
		capabilities = append(capabilities, pb.ExecutorCapability_EXECUTOR_CAPABILITY_RESOLVE_FACTS)
	}
	return &pb.Hello{
		ExecutorName: s.name,
		InstanceId:   s.instanceID,
		Tools:        definitionMessages(conn.tools[0]),
		// Zero would mean the default here, so that is said after the welcome.
		MaxConcurrentExecutions: uint32(max(1, slots)),
		Capabilities:            capabilities,
		InFlight:                listed,
		ResumeToken:             s.resumeToken,
		MaxMessageBytes:         messageBytesMax,
		Sdk:                     sdk(),
	}
}

func sdk() *pb.Sdk {
	return &pb.Sdk{
		Name: "callgate-go", Version: Version, Language: "go",
		LanguageVersion: strings.TrimPrefix(runtime.Version(), "go"),
	}
}

// serve carries one welcomed stream to its end.
func (s *executorStream) serve(
	ctx context.Context, cancel func(), stream pb.ExecutorService_ConnectClient, conn *executorConn, welcome *pb.Welcome,
) error {
	s.takeWelcome(conn, welcome)
	read, written := make(chan error, 1), make(chan error, 1)
	var both sync.WaitGroup
	both.Go(func() { written <- conn.out.write(ctx, conn.sender(stream.Send), stream.CloseSend) })
	both.Go(func() { read <- s.read(stream, conn) })
	interval, misses := timingOf(welcome.GetTiming())
	err := watchStream(read, written, interval, func(nonce uint32) error {
		if int(conn.unanswered.Load()) >= misses {
			return newError(ErrConnectionLost, "pings were not answered")
		}
		conn.unanswered.Add(1)
		conn.out.say(outItem{message: &pb.ConnectRequest{Body: &pb.ConnectRequest_Ping{Ping: &pb.Ping{Nonce: nonce}}}})
		return nil
	})
	cancel()
	both.Wait()
	return err
}

// watchStream pings until the reader or the writer of a stream ends, or a ping fails.
func watchStream(read, written <-chan error, interval time.Duration, ping func(nonce uint32) error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var nonce uint32
	for {
		select {
		case err := <-read:
			return err
		case <-written:
			// Our half has ended, properly or not. Only the reader learns why.
			return readWithin(read, cancelGrace, "the sidecar did not end the stream")
		case <-ticker.C:
			nonce++
			if err := ping(nonce); err != nil {
				return err
			}
		}
	}
}

func timingOf(timing *pb.StreamTiming) (interval time.Duration, misses int) {
	interval, misses = 5*time.Second, 3
	if span := timing.GetPingIntervalMs(); span > 0 {
		interval = time.Duration(span) * time.Millisecond
	}
	if count := timing.GetPingMisses(); count > 0 {
		misses = int(count)
	}
	return interval, misses
}

func (s *executorStream) setState(state State) {
	s.telling.Lock()
	defer s.telling.Unlock()
	s.mu.Lock()
	// A drain only ends in closed, and closed does not end.
	changed := s.state != state && s.state != StateClosed && (s.state != StateDraining || state == StateClosed)
	if changed {
		s.state = state
	}
	s.mu.Unlock()
	if !changed || s.onState == nil {
		return
	}
	defer func() {
		// Nothing that the user's code throws may end the stream.
		if fault := recover(); fault != nil {
			s.log.Error("the function that is told of states has failed", "fault", fault)
		}
	}()
	s.onState(state)
}

func (s *executorStream) currentState() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}
