// One connection of an executor: what it takes in, and what ends with it.

package callgate

import (
	"errors"
	"io"
	"sync/atomic"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

// outItem is one message on its way. lost is the output in it, should it not be written.
type outItem struct {
	message *pb.ConnectRequest
	x       *execution
	lost    uint64
}

// executorConn is what belongs to one stream and ends with it. Its plain fields are read and written
// under the lock of the stream.
type executorConn struct {
	out          *outbox[outItem]
	drainStarted *gate
	// Closed once the connection has ended.
	gone       chan struct{}
	unanswered atomic.Int32

	welcomed bool
	goAway   *pb.GoAway
	timer    *time.Timer
	// What the hello of this stream has said; the client may have changed it since.
	tools   [][]*Definition
	updates map[string]bool
	sent    map[string]bool
	// Pieces of the hello that are not answered yet, and the answers to the others.
	rest    map[string]bool
	answers []Registration
}

func newExecutorConn() *executorConn {
	return &executorConn{
		out: newOutbox[outItem](), drainStarted: newGate(), gone: make(chan struct{}),
		updates: map[string]bool{}, sent: map[string]bool{}, rest: map[string]bool{},
	}
}

func (c *executorConn) sender(send func(*pb.ConnectRequest) error) func(outItem) error {
	return func(item outItem) error { return send(item.message) }
}

// end counts the output that went down with the connection.
func (c *executorConn) end() {
	close(c.gone)
	if c.timer != nil {
		c.timer.Stop()
	}
	for _, item := range c.out.takeWork() {
		if item.x != nil {
			item.x.reports.noteLost(item.lost)
		}
	}
}

// takeWelcome makes the stream one that work goes over.
func (s *executorStream) takeWelcome(conn *executorConn, welcome *pb.Welcome) {
	answers := registrationsOf(welcome.GetRegistrations())
	sent, rest := conn.tools[0], conn.tools[1:]
	keep := map[string]bool{}
	for _, answer := range answers {
		keep[answer.Name] = keep[answer.Name] || answer.Active
	}
	for _, batch := range rest {
		for _, tool := range batch {
			keep[tool.name] = true
		}
	}
	s.executor.keepOnly(keep)
	s.applyAll(sent, answers)
	limits := welcome.GetLimits()
	s.executor.chunk.Store(int64(limits.GetMaxOutputChunkBytes()))
	cancels := s.forgetDecided(welcome.GetInFlight())

	s.mu.Lock()
	s.resumeToken = welcome.GetResumeToken()
	s.instanceID = textOr(welcome.GetInstanceId(), s.instanceID)
	s.resultMax = numberOr(limits.GetMaxResultBytes(), defaultResultMax)
	s.metadataMax = numberOr(limits.GetMaxMetadataBytes(), defaultMetadataMax)
	s.toolsMax = numberOr(limits.GetMaxToolsPerMessage(), defaultToolsMax)
	s.wasReady = true
	conn.welcomed = true
	conn.answers = answers
	for _, batch := range rest {
		update := newToolUpdate(batch, nil)
		s.updates[update.id] = update
		conn.rest[update.id] = true
		s.sendUpdate(conn, update)
	}
	complete := len(conn.rest) == 0
	s.answerFromHello(conn)
	for id, update := range s.updates {
		if !conn.sent[id] && !conn.updates[id] {
			s.sendUpdate(conn, update)
		}
	}
	drain, closing := s.drainRequest, s.closing
	s.mu.Unlock()

	s.waits.ready()
	s.onRegistrations(answers)
	for _, ref := range cancels {
		s.executor.cancel(ref, &Cancellation{CancelledCall, "cancelled while disconnected"}, 0)
	}
	// Finished while there was no stream, or asked for: once each, in the order of finishing.
	s.executor.sendHeld()
	if s.executor.slots() == 0 {
		conn.out.say(capacityOf(0))
	}
	if drain != nil {
		conn.out.say(outItem{message: drain})
	}
	if closing {
		conn.out.halfClose()
	}
	s.setState(StateReady)
	if complete {
		s.ready.set()
	}
}

func numberOr(number uint32, otherwise int) int {
	if number == 0 {
		return otherwise
	}
	return int(number)
}

// forgetDecided forgets what the sidecar does not want any more, and returns what it wants to stop.
// What goes on, and whatever is newer, needs nothing: every held result is sent anyway.
func (s *executorStream) forgetDecided(decisions []*pb.InFlightDecision) (cancels []*pb.ExecutionRef) {
	for _, decision := range decisions {
		switch decision.GetAction() {
		case pb.InFlightAction_IN_FLIGHT_ACTION_FORGET:
			s.executor.forget(decision.GetExecution())
		case pb.InFlightAction_IN_FLIGHT_ACTION_CANCEL:
			cancels = append(cancels, decision.GetExecution())
		}
	}
	return cancels
}

// read takes messages until the stream ends, and says how.
func (s *executorStream) read(stream pb.ExecutorService_ConnectClient, conn *executorConn) error {
	notedUnknown := false
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return newError(ErrConnectionLost, "the sidecar ended the stream")
		}
		if err != nil {
			return err
		}
		if !s.take(conn, message) && !notedUnknown {
			notedUnknown = true
			s.log.Info("the sidecar sent a message that this version does not know; ignored")
		}
	}
}

// take says whether the message is known.
func (s *executorStream) take(conn *executorConn, message *pb.ConnectResponse) bool {
	switch body := message.GetBody().(type) {
	case *pb.ConnectResponse_Execute:
		s.executor.execute(body.Execute)
	case *pb.ConnectResponse_ResultAck:
		s.executor.acknowledge(body.ResultAck.GetExecution())
		s.endIfDone(conn)
	case *pb.ConnectResponse_Cancel:
		reason := CancelReason(textOr(enumName(body.Cancel.GetReason(), ""), string(CancelledTurn)))
		s.executor.cancel(body.Cancel.GetExecution(), &Cancellation{reason, body.Cancel.GetMessage()},
			time.Duration(body.Cancel.GetGraceMs())*time.Millisecond)
	case *pb.ConnectResponse_OutputCredit:
		credit := body.OutputCredit
		s.executor.credit(credit.GetExecution(), int(credit.GetAddedBytes()), credit.GetStop())
	case *pb.ConnectResponse_PermissionCheck:
		s.questions.check(body.PermissionCheck, func(said *pb.PermissionCheckResult) {
			// On this very connection: a question of a stream that has ended is nobody's.
			conn.out.say(outItem{message: &pb.ConnectRequest{
				Body: &pb.ConnectRequest_PermissionCheckResult{PermissionCheckResult: said},
			}})
		})
	case *pb.ConnectResponse_ResolveFacts:
		s.questions.resolve(body.ResolveFacts, func(found *pb.ResolveFactsResult) {
			conn.out.say(outItem{message: &pb.ConnectRequest{
				Body: &pb.ConnectRequest_ResolveFactsResult{ResolveFactsResult: found},
			}})
		})
	case *pb.ConnectResponse_Ping:
		conn.out.say(outItem{message: &pb.ConnectRequest{
			Body: &pb.ConnectRequest_Pong{Pong: &pb.Pong{Nonce: body.Ping.GetNonce()}},
		}})
	case *pb.ConnectResponse_Pong:
		conn.unanswered.Store(0)
	case *pb.ConnectResponse_ToolUpdateResult:
		s.takeUpdateResult(conn, body.ToolUpdateResult)
	case *pb.ConnectResponse_DrainStarted:
		conn.drainStarted.set()
	case *pb.ConnectResponse_GoAway:
		s.takeGoAway(conn, body.GoAway)
	case *pb.ConnectResponse_Notice:
		s.takeNotice(body.Notice)
	default:
		return false
	}
	return true
}

func (s *executorStream) takeNotice(notice *pb.Notice) {
	s.log.Warn("the sidecar ignored a message", "code", notice.GetCode(), "why", notice.GetMessage())
	if notice.GetCode() == "execution_unknown" || notice.GetCode() == "execution_not_yours" {
		// A handler that reports on would use up the sidecar's patience with this stream.
		s.executor.mute(notice.GetAbout())
	}
}

func (s *executorStream) takeGoAway(conn *executorConn, goAway *pb.GoAway) {
	s.log.Info("the sidecar closes the stream", "why", textOr(goAway.GetMessage(), goAway.GetReason().String()))
	s.mu.Lock()
	conn.goAway = goAway
	if drain := goAway.GetDrainMs(); drain > 0 && conn.timer == nil {
		conn.timer = time.AfterFunc(time.Duration(drain)*time.Millisecond, conn.out.halfClose)
	}
	s.mu.Unlock()
	if goAway.GetReason() == pb.GoAwayReason_GO_AWAY_REASON_SUPERSEDED {
		s.executor.stopAll(&Cancellation{CancelledShutdown, "another process took over"})
		conn.out.halfClose()
		return
	}
	s.endIfDone(conn)
}

// endIfDone: after a go-away the stream ends as soon as nothing is left to finish on it.
func (s *executorStream) endIfDone(conn *executorConn) {
	s.mu.Lock()
	leaving := conn.goAway != nil
	s.mu.Unlock()
	if leaving && s.executor.isIdle() {
		conn.out.halfClose()
	}
}
