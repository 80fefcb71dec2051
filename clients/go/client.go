// The client: registers and runs tools. Nothing is connected before it is used.

package callgate

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	readyPoll    = 50 * time.Millisecond
	closeTimeout = 5 * time.Second
)

// Client is a connection to the sidecar, for tools, for turns, or for both, and for hooks beside them. For
// any goroutine.
type Client struct {
	// Services are what handlers may be given.
	Services *Services

	options    *options
	dialer     *dialer
	shared     *sharedConn
	background *background
	mux        *turnMux

	mu            sync.Mutex
	tools         []*Definition
	registrations map[string]Registration
	refused       []Registration
	stream        *executorStream
	hooks         *Hooks
	hooksSealed   bool
	closed        chan struct{}
	closing       bool
}

// New makes a client. Fails if the endpoint is none: `endpoint_invalid`.
func New(given ...Option) (*Client, error) {
	options := newOptions(given)
	where, err := resolveEndpoint(options.endpoint, options.env)
	if err != nil {
		return nil, err
	}
	if options.maxConcurrency < 1 {
		return nil, invalid("the concurrency must be at least 1")
	}
	dialer := options.dialer(where)
	return &Client{
		Services:      &Services{},
		options:       options,
		dialer:        dialer,
		shared:        &sharedConn{dialer: dialer, timeout: options.requestTimeout},
		background:    newBackground(options.log),
		mux:           newTurnMux(dialer, options.backoff, options.reconnectTimeout, options.log),
		registrations: map[string]Registration{},
		closed:        make(chan struct{}),
	}, nil
}

// Endpoint is where the sidecar is.
func (c *Client) Endpoint() string { return c.dialer.endpoint.text }

// Add adds tools before the client is started; afterwards use UpdateTools.
//
// A name twice is not refused here: the sidecar refuses the second and says so. Fails with what is
// wrong with the tools; of several, those that are well are added.
func (c *Client) Add(tools ...*Definition) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream != nil {
		return codedError(ErrConflict, "client_started", "the client has started; use UpdateTools")
	}
	var problems []error
	for _, tool := range tools {
		if tool.err != nil {
			problems = append(problems, tool.err)
			continue
		}
		c.tools = append(c.tools, tool)
	}
	return errors.Join(problems...)
}

// Tools are the tools of this process, registered or not.
func (c *Client) Tools() []*Definition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.tools)
}

// Registrations are what the sidecar last said about each tool, by name.
func (c *Client) Registrations() map[string]Registration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.registrations)
}

// Refused is what the sidecar refused in the last registration.
func (c *Client) Refused() []Registration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused)
}

// UpdateTools adds, replaces and removes tools while connected, and returns what the sidecar said,
// those that were added first; waits for a reconnect if need be.
func (c *Client) UpdateTools(ctx context.Context, add []*Definition, remove ...string) ([]Registration, error) {
	for _, tool := range add {
		if tool.err != nil {
			return nil, tool.err
		}
	}
	c.mu.Lock()
	kept := slices.DeleteFunc(slices.Clone(c.tools), func(tool *Definition) bool {
		return slices.Contains(remove, tool.name) ||
			slices.ContainsFunc(add, func(other *Definition) bool { return other.name == tool.name })
	})
	c.tools = append(kept, add...)
	stream := c.stream
	c.mu.Unlock()
	if stream != nil {
		return stream.update(ctx, add, remove)
	}
	if err := c.WaitReady(ctx); err != nil {
		return nil, err
	}
	var said []Registration
	known := c.Registrations()
	for _, tool := range add {
		if answer, found := known[tool.name]; found {
			said = append(said, answer)
		}
	}
	return said, nil
}

// Resize takes more or fewer executions at once from now on. Zero: none for now.
func (c *Client) Resize(maxConcurrency int) {
	c.mu.Lock()
	c.options.maxConcurrency = maxConcurrency
	stream := c.stream
	c.mu.Unlock()
	if stream != nil {
		stream.resize(maxConcurrency)
	}
}

// State is where the executor's stream stands; idle without tools.
func (c *Client) State() State {
	c.mu.Lock()
	stream, closing := c.stream, c.closing
	c.mu.Unlock()
	switch {
	case stream != nil:
		return stream.currentState()
	case closing:
		return StateClosed
	}
	return StateIdle
}

// Start begins to connect, and returns at once. Without tools, hooks and a name of an executor there is
// nothing to begin. Fails if there are tools and no name, with what is wrong with a hook, or if the client
// is closed.
func (c *Client) Start() error {
	if err := c.startTools(); err != nil {
		return err
	}
	return c.startHooks()
}

func (c *Client) startTools() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return newError(ErrClosed, "the client is closed")
	}
	if c.stream != nil || (len(c.tools) == 0 && c.options.executorName == "") {
		return nil
	}
	if c.options.executorName == "" {
		return invalid("a client with tools needs WithExecutor")
	}
	instanceID := c.options.instanceID
	if instanceID == "" {
		instanceID = newID()
	}
	settings := executorSettings{
		dialer: c.dialer, name: c.options.executorName, instanceID: instanceID, backoff: c.options.backoff,
		resolveFacts: c.options.resolveFacts, log: c.options.log, onState: c.options.onState,
		onRegistrations: c.takeRegistrations,
	}
	executor := newExecutor(c.Services, c.options.maxConcurrency, c.options.log)
	c.stream = newExecutorStream(settings, executor, slices.Clone(c.tools))
	go c.stream.run()
	return nil
}

func (c *Client) takeRegistrations(answers []Registration) {
	c.mu.Lock()
	c.refused = nil
	active := map[string]bool{}
	for _, answer := range answers {
		if answer.Error != nil {
			c.refused = append(c.refused, answer)
		}
		// Of two tools with one name the second is refused, and the first is the one that can be called.
		if answer.Error == nil || !active[answer.Name] {
			c.registrations[answer.Name] = answer
		}
		active[answer.Name] = active[answer.Name] || answer.Error == nil
	}
	stop := len(c.refused) > 0 && c.options.strict
	stream := c.stream
	c.mu.Unlock()
	if stop {
		stream.close()
	}
}

func (c *Client) refusal() error {
	refused := c.Refused()
	if !c.options.strict || len(refused) == 0 {
		return nil
	}
	text := "the sidecar refused"
	for _, item := range refused {
		text += " `" + item.Name + "` (" + item.Error.Code + ")"
	}
	made := newError(ErrRegistrationRefused, text)
	made.Refused = refused
	return made
}

// WaitReady starts the client and returns when hooks are asked and tools can be called, or, without
// either, when the sidecar serves.
//
// Fails when ctx is done, with ErrRegistrationRefused where that is strict, if a hook was refused, or with
// what no other try can help.
func (c *Client) WaitReady(ctx context.Context) error {
	if err := c.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	stream := c.stream
	c.mu.Unlock()
	if err := c.waitHooks(ctx); err != nil {
		return err
	}
	if stream == nil {
		if c.ownHooks() != nil {
			return nil
		}
		return c.waitServing(ctx)
	}
	select {
	case <-stream.ready.wait():
		return c.refusal()
	case <-stream.ended:
		return c.endOf(stream)
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// endOf is why a stream has ended for good, never nil.
func (c *Client) endOf(stream *executorStream) error {
	if err := c.refusal(); err != nil {
		return err
	}
	if stream.err != nil {
		return stream.err
	}
	return newError(ErrClosed, "the client was closed")
}

func (c *Client) waitServing(ctx context.Context) error {
	for {
		state, err := c.Health(ctx, "readiness")
		if err == nil && state == Serving {
			return nil
		}
		if err != nil && ctx.Err() == nil && !errorFromGRPC(err).isAny(ErrConnectionLost, ErrUnavailable, ErrDeadlineExceeded) {
			return err
		}
		select {
		case <-time.After(readyPoll):
		case <-ctx.Done():
			return contextError(ctx)
		}
	}
}

// Serve runs tools and hooks until ctx is done, then drains as Close does, for the time of WithDrainTimeout.
//
// Fails with ErrRegistrationRefused where that is strict, or with what no other try can help, e.g.
// ErrSuperseded.
func (c *Client) Serve(ctx context.Context) error {
	if err := c.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	stream := c.stream
	c.mu.Unlock()
	hooksEnded, hooksEnd := c.hooksEnded()
	var ended chan struct{}
	if stream != nil {
		ended = stream.ended
	} else if hooksEnded == nil {
		return invalid("a client without tools and hooks has nothing to serve")
	}
	var failure error
	select {
	case <-ctx.Done():
		return c.drainAndClose()
	case <-c.closed:
		return nil
	case <-hooksEnded:
		failure = hooksEnd()
	case <-ended:
		failure = c.endOf(stream)
	}
	_ = c.drainAndClose()
	if errors.Is(failure, ErrClosed) {
		return nil
	}
	return failure
}

// Run is Serve until SIGTERM or SIGINT too; a second one ends the process at once. For the main program
// of an executor.
func (c *Client) Run(ctx context.Context) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(signals)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-signals:
			stop()
		case <-done:
			return
		}
		select {
		case <-signals:
			// Whoever asks twice does not want to wait for anybody.
			os.Exit(128 + int(syscall.SIGTERM))
		case <-done:
		}
	}()
	return c.Serve(ctx)
}

func (c *Client) drainAndClose() error {
	ctx, cancel := context.WithTimeout(context.Background(), c.options.drainTimeout)
	defer cancel()
	return c.Close(ctx)
}

// Close finishes what runs, gives back what has not begun, and disconnects. May be called twice.
//
// Handlers that still run when ctx is done are told to stop; those that ignore it are left behind. A
// context that is done already does not wait for them at all. Turns go on; their readers are told that
// the client is closed.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		<-c.closed
		return nil
	}
	c.closing = true
	stream := c.stream
	c.mu.Unlock()
	defer close(c.closed)
	if stream != nil {
		stream.drain(ctx, "the client closes")
		late := time.AfterFunc(closeTimeout, stream.stop)
		<-stream.ended
		late.Stop()
	}
	// Until here a handler that finishes may still use the client, and its calls are still asked about.
	c.closeHooks()
	c.background.close()
	c.mux.close()
	c.shared.close()
	return nil
}
