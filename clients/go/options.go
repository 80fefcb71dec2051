// What can be said of a client, an approver's connection or a process of hooks besides its purpose.

package callgate

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"time"
)

// An Option says something of a Client, of Approvals or of Hooks. What one of them has no use for is
// ignored there.
type Option func(*options)

type options struct {
	endpoint         string
	token            string
	tls              *tls.Config
	dial             func(context.Context) (net.Conn, error)
	log              *slog.Logger
	backoff          Backoff
	requestTimeout   time.Duration
	reconnectTimeout time.Duration
	executorName     string
	maxConcurrency   int
	instanceID       string
	drainTimeout     time.Duration
	strict           bool
	resolveFacts     bool
	onState          func(State)
	hooksEndpoint    string
	hooksToken       string
	env              environment
}

func newOptions(given []Option) *options {
	made := &options{
		log: slog.New(slog.DiscardHandler), requestTimeout: 15 * time.Second, reconnectTimeout: 30 * time.Second,
		maxConcurrency: 16, drainTimeout: 20 * time.Second, resolveFacts: true, env: os.Getenv,
	}
	for _, option := range given {
		option(made)
	}
	return made
}

func (o *options) dialer(where endpoint) *dialer {
	if !where.secure && !where.local && o.dial == nil {
		o.log.Warn("the connection is not encrypted", "endpoint", where.text)
	}
	return &dialer{endpoint: where, token: o.token, env: o.env, tls: o.tls, dial: o.dial}
}

// WithEndpoint says where the sidecar is: unix:///…, http://host:port or https://host:port. Without it
// that is CALLGATE_ENDPOINT, else the sidecar's default Unix socket; for approvers and hooks the
// control.sock beside it.
func WithEndpoint(endpoint string) Option { return func(o *options) { o.endpoint = endpoint } }

// WithToken is the bearer token. Without it that is CALLGATE_TOKEN, else what is in the file that
// CALLGATE_TOKEN_FILE names, read anew for every connection.
func WithToken(token string) Option { return func(o *options) { o.token = token } }

// WithTLS says how to trust the sidecar, and how it trusts us, for https.
func WithTLS(config *tls.Config) Option { return func(o *options) { o.tls = config } }

// WithDialer makes connections in place of the endpoint, e.g. in memory.
func WithDialer(dial func(context.Context) (net.Conn, error)) Option {
	return func(o *options) { o.dial = dial }
}

// WithLogger says where logs go. Without it they go nowhere. They never hold arguments.
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithBackoff sets the waits between connections.
func WithBackoff(backoff Backoff) Option { return func(o *options) { o.backoff = backoff } }

// WithRequestTimeout limits one answer of the sidecar, turns aside. Default 15 s.
func WithRequestTimeout(timeout time.Duration) Option {
	return func(o *options) { o.requestTimeout = timeout }
}

// WithReconnectTimeout is how long the sidecar may stay away before a turn, a watch or a decision fails
// with ErrConnectionLost. Default 30 s. Executors and hooks try for ever.
func WithReconnectTimeout(timeout time.Duration) Option {
	return func(o *options) { o.reconnectTimeout = timeout }
}

// WithExecutor names the executor, which owns the tools. Needed if there are any; instances of one
// executor share it.
func WithExecutor(name string) Option { return func(o *options) { o.executorName = name } }

// WithConcurrency is most executions, or questions to hooks, at once. Default 16.
func WithConcurrency(most int) Option { return func(o *options) { o.maxConcurrency = most } }

// WithInstanceID names this process. Without it that is minted. Two processes with the same one drive
// each other away.
func WithInstanceID(id string) Option { return func(o *options) { o.instanceID = id } }

// WithDrainTimeout is how long running tools get at the end. Default 20 s.
func WithDrainTimeout(timeout time.Duration) Option {
	return func(o *options) { o.drainTimeout = timeout }
}

// StrictRegistration has a refused tool end Serve and WaitReady with ErrRegistrationRefused, in place
// of a line in the log.
func StrictRegistration() Option { return func(o *options) { o.strict = true } }

// WithoutFacts keeps the client from telling the sidecar what paths in arguments really are, which
// rules that allow paths need. For tools that see another file system than this process.
func WithoutFacts() Option { return func(o *options) { o.resolveFacts = false } }

// OnStateChange is told every change of the executor's state, in order; it must not block.
func OnStateChange(told func(State)) Option { return func(o *options) { o.onState = told } }
