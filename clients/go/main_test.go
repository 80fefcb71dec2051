// What the tests against the sidecar in memory share.

package callgate_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/internal/fake"
	"callgate.invalid/clients/go/internal/pb"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quick = callgate.WithBackoff(callgate.Backoff{Initial: 5 * time.Millisecond, Cap: 50 * time.Millisecond})

// side is a fake sidecar that ends with its test.
type side struct {
	*fake.Sidecar
	t *testing.T
}

func newSide(t *testing.T) *side {
	t.Helper()
	made := &side{fake.New(), t}
	t.Cleanup(made.Close)
	return made
}

func (s *side) options(given ...callgate.Option) []callgate.Option {
	return append([]callgate.Option{callgate.WithEndpoint("http://localhost:1"), callgate.WithDialer(s.Dial), quick}, given...)
}

// client is not started yet, and closed with the test.
func (s *side) client(given ...callgate.Option) *callgate.Client {
	s.t.Helper()
	made, err := callgate.New(s.options(given...)...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = made.Close(patient(s.t)) })
	return made
}

// executor has tools and is ready.
func (s *side) executor(tools []*callgate.Definition, given ...callgate.Option) *callgate.Client {
	s.t.Helper()
	made := s.client(append([]callgate.Option{callgate.WithExecutor("test")}, given...)...)
	if err := made.Add(tools...); err != nil {
		s.t.Fatal(err)
	}
	if err := made.WaitReady(patient(s.t)); err != nil {
		s.t.Fatal(err)
	}
	return made
}

// dispatch sends one call, with credit for output.
func (s *side) dispatch(tool, arguments string, more ...func(*pb.ExecuteRequest)) *fake.Execution {
	s.t.Helper()
	request := &pb.ExecuteRequest{ToolName: tool, CallId: "call", ArgumentsJson: []byte(arguments), OutputCreditBytes: 1024}
	for _, change := range more {
		change(request)
	}
	s.until(func() bool { return s.Executors.Owner(tool) != nil })
	var made *fake.Execution
	s.Do(func() { made = s.Executors.Dispatch(s.Executors.Owner(tool), request) })
	return made
}

func (s *side) until(condition func() bool) {
	s.t.Helper()
	if !s.Until(patient(s.t), condition) {
		s.t.Fatal("it did not become so in time")
	}
}

// result is the one result of an execution.
func (s *side) result(x *fake.Execution) *pb.ExecuteResult {
	s.t.Helper()
	s.until(func() bool { return len(x.Results) > 0 })
	return x.Results[0]
}

// taken returns once the executor of a tool has taken everything that was sent to it.
func (s *side) taken(tool string) {
	s.t.Helper()
	stream, before := (*fake.ExecutorStream)(nil), 0
	s.Do(func() {
		stream = s.Executors.Owner(tool).Stream
		before = stream.Pongs
	})
	s.Executors.SendAll(&pb.ConnectResponse{Body: &pb.ConnectResponse_Ping{Ping: &pb.Ping{}}})
	s.until(func() bool { return stream.Pongs > before })
}

// answer runs a call to its end.
func (s *side) answer(tool, arguments string) *pb.ToolResult {
	s.t.Helper()
	return s.result(s.dispatch(tool, arguments)).GetResult()
}

// instance is the only executor.
func (s *side) instance() *fake.Instance {
	var found *fake.Instance
	s.Do(func() {
		for _, instance := range s.Executors.Instances {
			found = instance
		}
	})
	return found
}

func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func equal[T comparable](t *testing.T, what string, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Errorf("%s: %v, wanted %v", what, found, wanted)
	}
}

func isKind(t *testing.T, err error, kind *callgate.Kind) *callgate.Error {
	t.Helper()
	var made *callgate.Error
	if !errors.Is(err, kind) || !errors.As(err, &made) {
		t.Fatalf("%v, wanted: %v", err, kind)
	}
	return made
}

func text(result *pb.ToolResult) string {
	made := ""
	for _, part := range result.GetContents() {
		made += part.GetText()
	}
	return made
}

// plain is a tool of a function of nothing.
func plain[Out any](name string, function func(ctx context.Context) (Out, error), options ...callgate.ToolOption) *callgate.Definition {
	return callgate.Tool(name, "A tool.", func(ctx context.Context, _ struct{}) (Out, error) { return function(ctx) },
		append(options, callgate.WithRisk(callgate.Safe))...)
}

// gated is a tool that waits to be let go, or to be stopped.
type gated struct {
	began chan struct{}
	open  chan struct{}
}

func newGated() *gated { return &gated{make(chan struct{}, 1_000), make(chan struct{})} }

func (g *gated) tool(name string, options ...callgate.ToolOption) *callgate.Definition {
	return plain(name, func(ctx context.Context) (string, error) {
		g.began <- struct{}{}
		select {
		case <-g.open:
			return "done", nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}, options...)
}

// deaf is a tool that is never stopped.
func (g *gated) deaf(name string) *callgate.Definition {
	return plain(name, func(context.Context) (string, error) {
		g.began <- struct{}{}
		<-g.open
		return "done", nil
	})
}
