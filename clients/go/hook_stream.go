// The stream of a hook process: opened again and again until it is told to stop.
//
// Every question is answered exactly once, by what the function says or by its failure; one that is
// taken back is not. Never decides anything.

package callgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

type hookStream struct {
	dialer   *dialer
	options  *options
	specs    []*hookSpec
	handlers map[string]map[HookPoint]hookFunc
	waits    *waits
	ready    *gate
	ended    chan struct{}
	ctx      context.Context
	stop     context.CancelFunc

	mu         sync.Mutex
	instanceID string
	closing    bool
	wasReady   bool
	out        *outbox[*pb.ConnectHookRequest]
	asked      map[string]context.CancelFunc
	goAway     *pb.GoAway
	err        error

	unanswered atomic.Int32
	running    sync.WaitGroup
}

func newHookStream(
	dialer *dialer, specs []*hookSpec, handlers map[string]map[HookPoint]hookFunc, instanceID string, options *options,
) *hookStream {
	ctx, stop := context.WithCancel(context.Background())
	return &hookStream{
		dialer: dialer, options: options, specs: specs, handlers: handlers, instanceID: instanceID,
		waits: newWaits(options.backoff), ready: newGate(), ended: make(chan struct{}), ctx: ctx, stop: stop,
		asked: map[string]context.CancelFunc{},
	}
}

// close takes the hooks along, and does not come back.
func (s *hookStream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	if s.out == nil {
		s.stop()
		return
	}
	// In order: the sidecar unregisters the hooks.
	leave(s.out)
}

func (s *hookStream) run() {
	defer close(s.ended)
	err := s.keepConnected()
	s.stop()
	s.running.Wait()
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	if err != nil {
		s.options.log.Error("the hooks have ended", "error", err)
	}
}

func (s *hookStream) keepConnected() error {
	for {
		failure := s.attempt()
		s.mu.Lock()
		closing, wasReady, goAway := s.closing, s.wasReady, s.goAway
		s.out, s.goAway = nil, nil
		for _, cancel := range s.asked {
			cancel()
		}
		clear(s.asked)
		s.mu.Unlock()
		s.ready.clear()
		if closing {
			return nil
		}
		if !wasReady && failure.isAny(ErrUnauthenticated, ErrPermissionDenied, ErrProtocol, ErrInvalidRequest) {
			return failure
		}
		s.options.log.Info("the hook stream ended", "error", failure)
		wait := s.waits.lost()
		if goAway != nil {
			var err error
			if wait, err = afterGoAway(goAway); err != nil {
				return err
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-s.ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// attempt is one stream, from dialling to its end, and says how it ended.
func (s *hookStream) attempt() *Error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	client, err := s.dialer.open()
	if err != nil {
		return errorFromGRPC(err)
	}
	defer client.Close()
	outgoing, err := s.dialer.outgoing(ctx)
	if err != nil {
		return errorFromGRPC(err)
	}
	stream, err := pb.NewHookServiceClient(client).ConnectHook(outgoing)
	if err != nil {
		return errorFromGRPC(err)
	}
	welcome, err := s.shakeHands(stream, cancel)
	if err != nil {
		return errorFromGRPC(err)
	}
	out := newOutbox[*pb.ConnectHookRequest]()
	s.mu.Lock()
	s.out = out
	s.wasReady = true
	s.instanceID = textOr(welcome.GetInstanceId(), s.instanceID)
	if s.closing {
		leave(out)
	}
	s.mu.Unlock()
	s.unanswered.Store(0)
	s.waits.ready()
	s.ready.set()
	read, written := make(chan error, 1), make(chan error, 1)
	var both sync.WaitGroup
	both.Go(func() { written <- out.write(ctx, stream.Send, stream.CloseSend) })
	both.Go(func() { read <- s.read(ctx, stream, out) })
	interval, misses := timingOf(welcome.GetTiming())
	err = watchStream(read, written, interval, func(nonce uint32) error {
		if int(s.unanswered.Add(1)) > misses {
			return newError(ErrConnectionLost, "pings were not answered")
		}
		out.say(&pb.ConnectHookRequest{Body: &pb.ConnectHookRequest_Ping{Ping: &pb.Ping{Nonce: nonce}}})
		return nil
	})
	cancel()
	both.Wait()
	return errorFromGRPC(err)
}

// leave takes the hooks along, and ends our half of the stream behind that.
func leave(out *outbox[*pb.ConnectHookRequest]) {
	out.say(&pb.ConnectHookRequest{Body: &pb.ConnectHookRequest_Leave{Leave: &pb.HookLeave{}}})
	out.halfClose()
}

func (s *hookStream) shakeHands(stream pb.HookService_ConnectHookClient, cancel func()) (*pb.HookWelcome, error) {
	late := time.AfterFunc(helloTimeout, cancel)
	defer late.Stop()
	hello := &pb.HookHello{
		InstanceId: s.instanceID, MaxMessageBytes: messageBytesMax,
		MaxConcurrentInvocations: uint32(s.options.maxConcurrency), Sdk: sdk(),
	}
	for _, spec := range s.specs {
		hello.Hooks = append(hello.Hooks, spec.message())
	}
	message := &pb.ConnectHookRequest{Body: &pb.ConnectHookRequest_Hello{Hello: hello}}
	if err := stream.Send(message); err != nil && err != io.EOF {
		return nil, err
	}
	first, err := stream.Recv()
	switch {
	case errors.Is(err, io.EOF):
		return nil, newError(ErrConnectionLost, "the sidecar ended the stream")
	case err != nil:
		return nil, err
	case first.GetWelcome() == nil && first.GetGoAway() != nil:
		s.mu.Lock()
		s.goAway = first.GetGoAway()
		s.mu.Unlock()
		return nil, newError(ErrConnectionLost, "the sidecar is going away")
	case first.GetWelcome() == nil:
		return nil, newError(ErrProtocol, "the sidecar did not begin with a welcome")
	}
	return first.GetWelcome(), s.refusal(first.GetWelcome())
}

// refusal is what the sidecar has against the hooks, at the first time; later it is only noted.
func (s *hookStream) refusal(welcome *pb.HookWelcome) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	for _, item := range welcome.GetRegistered() {
		if item.GetError() == nil {
			continue
		}
		if s.wasReady {
			s.options.log.Error("the sidecar refused a hook", "hook", item.GetHookId(), "why", item.GetError().GetMessage())
			continue
		}
		text += fmt.Sprintf(" `%s`: %s", item.GetHookId(), item.GetError().GetMessage())
	}
	if text == "" {
		return nil
	}
	return codedError(ErrInvalidRequest, "hook_refused", "the sidecar refused"+text)
}

func (s *hookStream) read(ctx context.Context, stream pb.HookService_ConnectHookClient, out *outbox[*pb.ConnectHookRequest]) error {
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return newError(ErrConnectionLost, "the sidecar ended the stream")
		}
		if err != nil {
			return err
		}
		switch body := message.GetBody().(type) {
		case *pb.ConnectHookResponse_Invocation:
			s.take(ctx, out, body.Invocation)
		case *pb.ConnectHookResponse_InvocationCancelled:
			s.mu.Lock()
			if cancel := s.asked[body.InvocationCancelled.GetInvocationId()]; cancel != nil {
				delete(s.asked, body.InvocationCancelled.GetInvocationId())
				cancel()
			}
			s.mu.Unlock()
		case *pb.ConnectHookResponse_Ping:
			out.say(&pb.ConnectHookRequest{Body: &pb.ConnectHookRequest_Pong{Pong: &pb.Pong{Nonce: body.Ping.GetNonce()}}})
		case *pb.ConnectHookResponse_Pong:
			s.unanswered.Store(0)
		case *pb.ConnectHookResponse_GoAway:
			// The stream stays until the sidecar ends it: a clean end would unregister the hooks.
			s.mu.Lock()
			s.goAway = body.GoAway
			s.mu.Unlock()
		case *pb.ConnectHookResponse_Notice:
			s.options.log.Info("the sidecar ignored a message", "why", body.Notice.GetMessage())
		}
	}
}

// take begins to answer one question.
func (s *hookStream) take(ctx context.Context, out *outbox[*pb.ConnectHookRequest], invocation *pb.HookInvocation) {
	id := invocation.GetInvocationId()
	within, cancel, more := timed(ctx, time.Duration(invocation.GetTimeoutMs())*time.Millisecond)
	within = context.WithValue(within, moreTimeKey{}, func(extra time.Duration) bool {
		granted := more(extra)
		if granted {
			out.say(&pb.ConnectHookRequest{Body: &pb.ConnectHookRequest_NeedMoreTime{
				NeedMoreTime: &pb.NeedMoreTime{InvocationId: id, ExtraMs: milliseconds(extra)},
			}})
		}
		return granted
	})
	s.mu.Lock()
	s.asked[id] = cancel
	s.mu.Unlock()
	s.running.Go(func() {
		verdict := failureVerdict(id, errors.New("the hook ended its goroutine"))
		// Deferred, so that a function that ends its goroutine is a failure as well.
		defer func() {
			cancel()
			s.mu.Lock()
			wanted := s.asked[id] != nil
			delete(s.asked, id)
			s.mu.Unlock()
			// Who is only told answers to nobody.
			if wanted && invocation.GetTimeoutMs() > 0 {
				out.say(&pb.ConnectHookRequest{Body: &pb.ConnectHookRequest_Verdict{Verdict: verdict}})
			}
		}()
		said, err := s.answer(within, invocation)
		if err != nil {
			s.options.log.Error("a hook failed", "hook", invocation.GetHookId(), "type", fmt.Sprintf("%T", err))
			said = failureVerdict(id, err)
		}
		verdict = said
	})
}

type moreTimeKey struct{}

// NeedMoreTime asks for more time for the question that a hook is being asked, once, before its time is
// over. More than the hook's own timeout again is cut to that. False: it is too late, was asked before, or
// nobody waits for the answer.
func NeedMoreTime(ctx context.Context, extra time.Duration) bool {
	more, ok := ctx.Value(moreTimeKey{}).(func(time.Duration) bool)
	return ok && more(extra)
}

// timed is a context that ends after a span, and a way to let it end later, once. Zero: it has no end.
func timed(ctx context.Context, span time.Duration) (within context.Context, cancel func(), more func(time.Duration) bool) {
	within, stop := context.WithCancelCause(ctx)
	if span == 0 {
		return within, func() { stop(nil) }, func(time.Duration) bool { return false }
	}
	end := time.Now().Add(span)
	timer := time.AfterFunc(span, func() { stop(context.DeadlineExceeded) })
	var once sync.Once
	cancel = func() {
		timer.Stop()
		stop(nil)
	}
	more = func(extra time.Duration) (granted bool) {
		once.Do(func() {
			if granted = within.Err() == nil && timer.Stop(); granted {
				timer.Reset(time.Until(end) + min(extra, span))
			}
		})
		return granted
	}
	return within, cancel, more
}

// answer is what the function says.
func (s *hookStream) answer(ctx context.Context, invocation *pb.HookInvocation) (verdict *pb.HookVerdict, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	asked := hookInputOf(invocation)
	function := s.handlers[asked.HookID][asked.Point]
	if function == nil {
		return nil, errors.New("this client does not know that point")
	}
	said, err := function(ctx, asked)
	if err != nil {
		return nil, err
	}
	return verdictMessage(invocation.GetInvocationId(), asked, said)
}

func failureVerdict(id string, err error) *pb.HookVerdict {
	return &pb.HookVerdict{InvocationId: id, Verdict: &pb.HookVerdict_Failure{
		Failure: &pb.HookFailure{Message: cutText(err.Error(), messageBytesCut)},
	}}
}
