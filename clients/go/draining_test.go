// How an executor ends.

package callgate_test

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	callgate "callgate.invalid/clients/go"
)

func TestCloseFinishesWhatRunsAndGivesBackWhatHasNotBegun(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	client := s.executor([]*callgate.Definition{gate.tool("wait")}, callgate.WithConcurrency(1))
	first, second := s.dispatch("wait", "{}"), s.dispatch("wait", "{}")
	<-gate.began
	s.until(func() bool { return len(second.Accepted) == 1 })
	closed := make(chan error, 1)
	go func() { closed <- client.Close(patient(t)) }()
	s.until(func() bool { return second.Abandoned })
	late := s.dispatch("wait", "{}")
	s.until(func() bool { return late.Rejected != nil })
	close(gate.open)
	equal(t, "text", text(s.result(first).GetResult()), "done")
	if err := <-closed; err != nil {
		t.Error(err)
	}
	equal(t, "drained", len(s.instance().Drained), 1)
	equal(t, "state", client.State(), callgate.StateClosed)
	if err := client.Close(patient(t)); err != nil {
		t.Error(err)
	}
	isKind(t, client.Start(), callgate.ErrClosed)
}

func TestHandlerThatRunsOnAfterTheDrainIsToldToStop(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	client := s.executor([]*callgate.Definition{gate.tool("wait")})
	x := s.dispatch("wait", "{}")
	<-gate.began
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_ = client.Close(short)
	equal(t, "cancelled", s.result(x).GetCancelled() != nil, true)
}

func TestSidecarThatNeverAnswersTheDrainDoesNotHoldUpTheEnd(t *testing.T) {
	s := newSide(t)
	client := s.executor([]*callgate.Definition{plain("any", func(context.Context) (string, error) { return "", nil })})
	s.Do(func() { s.Executors.Deaf = true })
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	before := time.Now()
	_ = client.Close(short)
	if span := time.Since(before); span > 3*time.Second {
		t.Errorf("it took %v", span)
	}
}

func TestResultIsStillAcknowledgedThroughALossDuringTheDrain(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	client := s.executor([]*callgate.Definition{gate.tool("wait")})
	x := s.dispatch("wait", "{}")
	<-gate.began
	closed := make(chan error, 1)
	go func() { closed <- client.Close(patient(t)) }()
	s.until(func() bool { return len(s.Executors.Owner("wait").Drained) == 1 })
	s.DropStreams()
	instance := s.instance()
	s.until(func() bool { return len(instance.Drained) == 2 })
	close(gate.open)
	<-closed
	equal(t, "acknowledged", s.result(x) != nil && x.Acknowledged, true)
}

func TestHandlerMayUseTheClientWhileItDrains(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	var client *callgate.Client
	client = s.executor([]*callgate.Definition{plain("ask", func(ctx context.Context) (string, error) {
		gate.began <- struct{}{}
		<-gate.open
		info, err := client.ServerInfo(ctx)
		if err != nil {
			return "", err
		}
		return info.Version, nil
	})})
	x := s.dispatch("ask", "{}")
	<-gate.began
	closed := make(chan error, 1)
	go func() { closed <- client.Close(patient(t)) }()
	s.until(func() bool { return len(x.Instance.Drained) == 1 })
	close(gate.open)
	equal(t, "text", text(s.result(x).GetResult()), "0.0.0-fake")
	<-closed
}

func TestRunDrainsOnSIGTERMAndReturns(t *testing.T) {
	s := newSide(t)
	gate := newGated()
	client := s.executor([]*callgate.Definition{gate.tool("wait")})
	// A signal that comes before Run listens would end this process.
	early := make(chan os.Signal, 1)
	signal.Notify(early, syscall.SIGTERM)
	defer signal.Stop(early)
	ran := make(chan error, 1)
	go func() { ran <- client.Run(context.Background()) }()
	x := s.dispatch("wait", "{}")
	<-gate.began
	for told := false; !told; {
		if err := raise(); err != nil {
			t.Fatal(err)
		}
		<-early
		short, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		told = s.Until(short, func() bool { return len(x.Instance.Drained) == 1 })
		cancel()
	}
	s.until(func() bool { return len(x.Instance.Drained) == 1 })
	close(gate.open)
	if err := <-ran; err != nil {
		t.Error(err)
	}
	equal(t, "text", text(s.result(x).GetResult()), "done")
}

func raise() error {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	return self.Signal(syscall.SIGTERM)
}

func TestClientWithToolsNeedsANameAndOneWithoutHasNothingToServe(t *testing.T) {
	s := newSide(t)
	nameless := s.client()
	if err := nameless.Add(plain("any", func(context.Context) (string, error) { return "", nil })); err != nil {
		t.Fatal(err)
	}
	isKind(t, nameless.Start(), callgate.ErrInvalidRequest)
	isKind(t, s.client().Serve(patient(t)), callgate.ErrInvalidRequest)
	started := s.executor([]*callgate.Definition{plain("any", func(context.Context) (string, error) { return "", nil })})
	if err := started.Add(); !errors.Is(err, callgate.ErrConflict) {
		t.Errorf("%v", err)
	}
}
