//go:build real

// A sidecar in a folder of its own, and what the tests here share.

package real

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	callgate "callgate.invalid/clients/go"
	"callgate.invalid/clients/go/examples/bakery"
)

const (
	testTime  = 30 * time.Second
	readyTime = 15 * time.Second
	stopTime  = 10 * time.Second
)

var quick = callgate.WithBackoff(callgate.Backoff{Initial: 20 * time.Millisecond, Cap: 200 * time.Millisecond})

// The sidecar that most tests share; they may not restart it.
var shared *sidecar

func TestMain(m *testing.M) {
	made, err := newSidecar()
	if err == nil {
		err = made.start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared = made
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		shared.close()
		os.Exit(code)
	}))
}

type sidecar struct {
	folder  string
	port    int
	binary  string
	process *exec.Cmd
	more    []string
}

// setting adds to its environment, from the next start on.
func (s *sidecar) setting(entries ...string) { s.more = append(s.more, entries...) }

func newSidecar() (*sidecar, error) {
	binary := os.Getenv("CALLGATE_BIN")
	if binary == "" {
		return nil, fmt.Errorf("set CALLGATE_BIN to the callgate binary, e.g. target/debug/callgate")
	}
	binary, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	// Short, because the path of a socket is.
	folder, err := os.MkdirTemp("/tmp", "cgg-")
	if err != nil {
		return nil, err
	}
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer probe.Close()
	return &sidecar{folder: folder, port: probe.Addr().(*net.TCPAddr).Port, binary: binary}, nil
}

// own is one that a test may end.
func own(t *testing.T) *sidecar {
	t.Helper()
	made, err := newSidecar()
	if err == nil {
		t.Cleanup(made.close)
		err = made.start()
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (s *sidecar) endpoint() string { return "unix://" + s.folder + "/s/callgate.sock" }
func (s *sidecar) control() string  { return "unix://" + s.folder + "/s/control.sock" }
func (s *sidecar) tcp() string      { return fmt.Sprintf("http://127.0.0.1:%d", s.port) }

func (s *sidecar) environment() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "CALLGATE") && !strings.HasPrefix(entry, "XDG") {
			kept = append(kept, entry)
		}
	}
	return append(append(kept, s.more...),
		"CALLGATE_DATA_DIR="+s.folder+"/d", "CALLGATE_SOCKET_DIR="+s.folder+"/s",
		fmt.Sprintf("CALLGATE__SERVER__TCP=127.0.0.1:%d", s.port), "XDG_CONFIG_HOME="+s.folder+"/c")
}

// start returns when its health says that it is ready.
func (s *sidecar) start() error {
	log, err := os.OpenFile(s.folder+"/log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.process = exec.Command(s.binary, "serve")
	s.process.Env, s.process.Stdout, s.process.Stderr = s.environment(), log, log
	if err := s.process.Start(); err != nil {
		return err
	}
	client, err := callgate.New(callgate.WithEndpoint(s.endpoint()), quick)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	defer client.Close(ctx)
	if err := client.WaitReady(ctx); err != nil {
		text, _ := os.ReadFile(s.folder + "/log")
		return fmt.Errorf("the sidecar is not ready: %w\n%s", err, text)
	}
	return nil
}

func (s *sidecar) stop(number syscall.Signal) {
	process := s.process
	s.process = nil
	if process == nil {
		return
	}
	_ = process.Process.Signal(number)
	late := time.AfterFunc(stopTime, func() { _ = process.Process.Kill() })
	defer late.Stop()
	_ = process.Wait()
}

// restart ends it with a signal and starts it again with what it has kept.
func (s *sidecar) restart(t *testing.T, number syscall.Signal) {
	t.Helper()
	s.stop(number)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
}

func (s *sidecar) close() {
	s.stop(syscall.SIGTERM)
	_ = os.RemoveAll(s.folder)
}

func (s *sidecar) token(t *testing.T, role string) callgate.Option {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.folder, "d", "tokens", role+".token"))
	if err != nil {
		t.Fatal(err)
	}
	return callgate.WithToken(strings.TrimSpace(string(text)))
}

// client is closed with the test.
func (s *sidecar) client(t *testing.T, options ...callgate.Option) *callgate.Client {
	t.Helper()
	made, err := callgate.New(append([]callgate.Option{callgate.WithEndpoint(s.endpoint()), quick}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close(within(t)) })
	return made
}

// executor has tools and is ready.
func (s *sidecar) executor(t *testing.T, name string, tools []*callgate.Definition, options ...callgate.Option) *callgate.Client {
	t.Helper()
	made := s.client(t, append(options, callgate.WithExecutor(name))...)
	if err := made.Add(tools...); err != nil {
		t.Fatal(err)
	}
	if err := made.WaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	if refused := made.Refused(); len(refused) > 0 {
		t.Fatalf("refused: %+v", refused)
	}
	return made
}

// bakery has the tools of the demo and is ready; it returns a client that runs turns.
func (s *sidecar) bakery(t *testing.T) *callgate.Client {
	t.Helper()
	made := s.client(t, callgate.WithExecutor("bakery"), callgate.WithConcurrency(8))
	made.Services.Register(bakery.NewRecords())
	if err := made.Add(bakery.Tools()...); err != nil {
		t.Fatal(err)
	}
	if err := made.WaitReady(within(t)); err != nil {
		t.Fatal(err)
	}
	return s.client(t)
}

func (s *sidecar) approver(t *testing.T) *callgate.Approvals {
	t.Helper()
	made, err := callgate.NewApprovals(callgate.WithEndpoint(s.control()), quick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = made.Close() })
	return made
}

// within is a context for what a test waits for. Not the test's own, which has ended in its clean-up.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	t.Cleanup(cancel)
	return ctx
}

// runs tells the runs of one test apart, so that it can be run again on the same sidecar.
var (
	runs    sync.Map
	counted atomic.Int64
)

// id is an id of this run of a test.
func id(t *testing.T, name string) string {
	number, known := runs.Load(t)
	if !known {
		number, _ = runs.LoadOrStore(t, counted.Add(1))
	}
	return fmt.Sprintf("%s-%d", name, number)
}

func call(id, tool string, arguments any) callgate.ToolCall {
	return callgate.ToolCall{CallID: id, Name: tool, Arguments: arguments}
}

// begin runs a turn with calls.
func begin(t *testing.T, client *callgate.Client, asked callgate.TurnRequest) *callgate.Turn {
	t.Helper()
	turn, err := client.RunTurn(within(t), asked)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func end(t *testing.T, turn *callgate.Turn) *callgate.TurnResult {
	t.Helper()
	result, err := turn.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// run runs calls to the end.
func run(t *testing.T, client *callgate.Client, session string, calls ...callgate.ToolCall) *callgate.TurnResult {
	t.Helper()
	return end(t, begin(t, client, callgate.TurnRequest{SessionID: session, Calls: calls}))
}

// one is the only call of a result.
func one(t *testing.T, result *callgate.TurnResult) *callgate.CallResult {
	t.Helper()
	if len(result.Results) != 1 {
		t.Fatalf("%d results", len(result.Results))
	}
	return result.Results[0]
}

func code(result *callgate.CallResult) string {
	if result == nil || result.Error == nil {
		return ""
	}
	return result.Error.Code
}

func equal[T comparable](t *testing.T, what string, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Errorf("%s: %v, wanted %v", what, found, wanted)
	}
}

// message is a recorded answer of a model.
func message(t *testing.T, name string) (json.RawMessage, []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "python", "examples", "messages", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed struct {
		ToolCalls []struct{ ID string } `json:"tool_calls"`
	}
	if err := json.Unmarshal(text, &parsed); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, item := range parsed.ToolCalls {
		ids = append(ids, item.ID)
	}
	return text, ids
}

// proxy stands between a client and the sidecar, and can cut the line.
type proxy struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	conns    []net.Conn
	cuts     int
	running  sync.WaitGroup
}

func newProxy(t *testing.T, s *sidecar) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	made := &proxy{listener: listener, to: fmt.Sprintf("127.0.0.1:%d", s.port)}
	made.running.Go(made.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		made.cut()
		made.running.Wait()
	})
	return made
}

func (p *proxy) endpoint() callgate.Option {
	return callgate.WithEndpoint("http://" + p.listener.Addr().String())
}

func (p *proxy) accept() {
	for {
		here, err := p.listener.Accept()
		if err != nil {
			return
		}
		there, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = here.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, here, there)
		p.mu.Unlock()
		p.running.Go(func() { copyAll(here, there) })
		p.running.Go(func() { copyAll(there, here) })
	}
}

func copyAll(from, to net.Conn) {
	var buffer [65_536]byte
	for {
		count, err := from.Read(buffer[:])
		if _, failed := to.Write(buffer[:count]); err != nil || failed != nil {
			_ = to.Close()
			return
		}
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts++
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.conns = nil
}
