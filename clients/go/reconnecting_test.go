// Streams that break, and what survives them.

package callgate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/internal/pb"
)

// hello is the one of that number, once it has come.
func (s *side) hello(count int) *pb.Hello {
	s.t.Helper()
	instance := s.instance()
	s.until(func() bool { return len(instance.Hellos) >= count && instance.Stream != nil })
	return instance.Hellos[count-1]
}

func TestExecutionThatRanThroughALossAnswersAfterwards(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{gate.tool("wait")})
	x := s.dispatch("wait", "{}")
	<-gate.began
	s.DropStreams()
	hello := s.hello(2)
	equal(t, "in flight", fmt.Sprint(hello.GetInFlight()[0].GetState()), "IN_FLIGHT_STATE_RUNNING")
	equal(t, "token", hello.GetResumeToken(), "token-"+hello.GetInstanceId())
	equal(t, "instance", hello.GetInstanceId(), s.instance().Hellos[0].GetInstanceId())
	close(gate.open)
	equal(t, "text", text(s.result(x).GetResult()), "done")
	equal(t, "began", len(gate.began), 0)
}

func TestResultIsKeptUntilAcknowledgedAndSentAgain(t *testing.T) {
	s := newSide(t)
	s.Executors.HoldAcks = true
	s.executor([]*callgate.Definition{plain("quick", func(context.Context) (string, error) { return "done", nil })})
	x := s.dispatch("quick", "{}")
	s.result(x)
	for count := 2; count <= 3; count++ {
		s.DropStreams()
		s.until(func() bool { return len(x.Results) == count })
	}
	equal(t, "in flight", s.hello(3).GetInFlight()[0].GetState(), pb.InFlightState_IN_FLIGHT_STATE_FINISHED)
	s.Executors.ReleaseAcks()
	s.taken("quick")
	s.DropStreams()
	equal(t, "after", len(s.hello(4).GetInFlight()), 0)
}

func TestResultsMadeWhileDisconnectedAreSentInOrderAfterTheWelcome(t *testing.T) {
	s := newSide(t)
	gates := []*gated{newGated(), newGated(), newGated()}
	var tools []*callgate.Definition
	for at, gate := range gates {
		tools = append(tools, gate.tool(fmt.Sprintf("wait_%d", at)))
	}
	client := s.executor(tools)
	for at, gate := range gates {
		s.dispatch(fmt.Sprintf("wait_%d", at), "{}")
		<-gate.began
	}
	s.Down()
	for client.State() == callgate.StateReady {
		time.Sleep(time.Millisecond) // Until the loss is noticed.
	}
	for _, at := range []int{2, 0, 1} {
		close(gates[at].open)
		// Nothing tells from outside that an answer is held; its handler's goroutine needs a moment.
		time.Sleep(20 * time.Millisecond)
	}
	s.Up()
	instance := s.instance()
	s.until(func() bool {
		for _, x := range instance.Executions {
			if len(x.Results) == 0 {
				return false
			}
		}
		return true
	})
	order := ""
	for _, message := range instance.Stream.Received {
		if result := message.GetResult(); result != nil {
			for _, x := range instance.Executions {
				if x.Request.GetExecution().GetExecutionId() == result.GetExecution().GetExecutionId() {
					order += x.Request.GetToolName() + " "
				}
			}
		}
	}
	equal(t, "order", order, "wait_2 wait_0 wait_1 ")
}

func TestDecisionAboutARunningExecutionIsObeyed(t *testing.T) {
	for action, wanted := range map[pb.InFlightAction]string{
		pb.InFlightAction_IN_FLIGHT_ACTION_FORGET: "0 results, 0 acks",
		pb.InFlightAction_IN_FLIGHT_ACTION_CANCEL: "1 results, 1 acks",
	} {
		t.Run(action.String(), func(t *testing.T) {
			s := newSide(t)
			stopped := make(chan error, 1)
			gate := newGated()
			s.executor([]*callgate.Definition{plain("wait", func(ctx context.Context) (string, error) {
				gate.began <- struct{}{}
				<-ctx.Done()
				stopped <- context.Cause(ctx)
				return "", ctx.Err()
			}), plain("other", func(context.Context) (string, error) { return "", nil })})
			x := s.dispatch("wait", "{}")
			<-gate.began
			s.Do(func() { s.Executors.Decide = func(*pb.InFlightExecution) pb.InFlightAction { return action } })
			s.DropStreams()
			s.hello(2)
			<-stopped
			if action == pb.InFlightAction_IN_FLIGHT_ACTION_CANCEL {
				s.result(x)
			}
			s.answer("other", "{}")
			s.Do(func() {
				equal(t, "told", fmt.Sprintf("%d results, %d acks", len(x.Results), x.CancelAcks), wanted)
			})
		})
	}
}

func TestUpdateThatWasLostWithAStreamIsAnsweredByTheNextHello(t *testing.T) {
	s := newSide(t)
	client := s.executor([]*callgate.Definition{plain("first", func(context.Context) (string, error) { return "", nil })})
	s.Down()
	answered := make(chan error, 1)
	go func() {
		answers, err := client.UpdateTools(patient(t), []*callgate.Definition{
			plain("second", func(context.Context) (string, error) { return "", nil }),
		}, "first")
		if err == nil && (len(answers) != 2 || !answers[0].Active || answers[1].Active) {
			err = fmt.Errorf("%+v", answers)
		}
		answered <- err
	}()
	for len(client.Tools()) != 1 || client.Tools()[0].Name() != "second" {
		time.Sleep(time.Millisecond) // Until the change is made.
	}
	s.Up()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	equal(t, "told", s.instance().Tools["first"] == nil && s.instance().Tools["second"] != nil, true)
}

func TestStreamWithoutPongsIsGivenUpAndOpenedAgain(t *testing.T) {
	s := newSide(t)
	s.Executors.Timing = &pb.StreamTiming{PingIntervalMs: 20, PingMisses: 2}
	s.Executors.Deaf = true
	s.executor([]*callgate.Definition{plain("any", func(context.Context) (string, error) { return "", nil })})
	s.hello(3)
}

func TestGoAwayIsObeyedAfterWhatRunsHasFinished(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	s.executor([]*callgate.Definition{gate.tool("wait")})
	x := s.dispatch("wait", "{}")
	<-gate.began
	s.Executors.SendAll(&pb.ConnectResponse{Body: &pb.ConnectResponse_GoAway{GoAway: &pb.GoAway{DrainMs: 60_000, ReconnectMaxMs: 20}}})
	s.taken("wait")
	equal(t, "hellos before", len(s.instance().Hellos), 1)
	close(gate.open)
	s.result(x)
	equal(t, "in flight", len(s.hello(2).GetInFlight()), 0)
}

func TestGoAwayForGoodAndASecondProcessAreTheEnd(t *testing.T) {
	for reason, kind := range map[pb.GoAwayReason]*callgate.Kind{
		pb.GoAwayReason_GO_AWAY_REASON_SUPERSEDED: callgate.ErrSuperseded,
		pb.GoAwayReason_GO_AWAY_REASON_SHUTDOWN:   callgate.ErrUnavailable,
	} {
		s := newSide(t)
		client := s.executor([]*callgate.Definition{plain("any", func(context.Context) (string, error) { return "", nil })})
		served := make(chan error, 1)
		go func() { served <- client.Serve(patient(t)) }()
		s.Executors.SendAll(&pb.ConnectResponse{Body: &pb.ConnectResponse_GoAway{GoAway: &pb.GoAway{Reason: reason}}})
		isKind(t, <-served, kind)
		equal(t, "state", client.State(), callgate.StateClosed)
	}
}

func TestWrongCredentialIsAnErrorAtFirstAndTriedAgainLater(t *testing.T) {
	s := newSide(t)
	s.Executors.AbortHello = status.Error(codes.Unauthenticated, "who are you?")
	client := s.client(callgate.WithExecutor("test"))
	if err := client.Add(plain("any", func(context.Context) (string, error) { return "", nil })); err != nil {
		t.Fatal(err)
	}
	isKind(t, client.WaitReady(patient(t)), callgate.ErrUnauthenticated)

	s.Do(func() { s.Executors.AbortHello = nil })
	later := s.executor([]*callgate.Definition{plain("later", func(context.Context) (string, error) { return "", nil })})
	s.Do(func() { s.Executors.AbortHello = status.Error(codes.Unauthenticated, "who are you?") })
	s.DropStreams()
	for later.State() != callgate.StateReconnecting {
		time.Sleep(time.Millisecond) // Until the loss is noticed.
	}
	s.Do(func() { s.Executors.AbortHello = nil })
	s.answer("later", "{}")
}

func TestExecutorWaitsForASidecarThatComesLater(t *testing.T) {
	s := newSide(t)
	s.Down()
	client := s.client(callgate.WithExecutor("test"))
	if err := client.Add(plain("any", func(context.Context) (string, error) { return "well", nil })); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	isKind(t, client.WaitReady(short), callgate.ErrDeadlineExceeded)
	equal(t, "state", client.State(), callgate.StateConnecting)
	s.Up()
	equal(t, "text", text(s.answer("any", "{}")), "well")
}

func TestChangesOfStateAreToldInOrderAndAPanicOfTheObserverEndsNothing(t *testing.T) {
	s := newSide(t)
	var mu sync.Mutex
	told := ""
	client := s.executor([]*callgate.Definition{plain("any", func(context.Context) (string, error) { return "", nil })},
		callgate.OnStateChange(func(state callgate.State) {
			mu.Lock()
			told += string(state) + " "
			mu.Unlock()
			panic("the observer is broken")
		}))
	s.DropStreams()
	s.hello(2)
	s.answer("any", "{}")
	_ = client.Close(patient(t))
	mu.Lock()
	defer mu.Unlock()
	equal(t, "told", told, "connecting ready reconnecting ready draining closed ")
}

func TestTokenFileThatCannotBeReadIsAnErrorAtFirst(t *testing.T) {
	dials := 0
	refuse := func(context.Context) (net.Conn, error) { dials++; return nil, errors.New("nothing there") }
	t.Setenv("CALLGATE_TOKEN", "")
	t.Setenv("CALLGATE_TOKEN_FILE", t.TempDir()+"/none")
	client, err := callgate.New(callgate.WithEndpoint("http://localhost:1"), callgate.WithDialer(refuse), callgate.WithExecutor("test"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close(patient(t))
	var found *callgate.Error
	if err := client.Serve(patient(t)); !errors.As(err, &found) || found.Code != "token_unreadable" {
		t.Errorf("%v", err)
	}
	equal(t, "dials", dials, 0)
}
