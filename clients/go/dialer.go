// Makes connections, and the metadata that goes with every request.

package callgate

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

// The largest frame of the contract; limits proper are agreed on each stream.
const messageBytesMax = 5_242_864

// dialer has what is needed to open a connection, as often as it takes.
type dialer struct {
	endpoint endpoint
	token    string
	env      environment
	tls      *tls.Config
	dial     func(context.Context) (net.Conn, error)
}

// open makes a new connection of its own. Nothing is dialled before the first rpc.
func (d *dialer) open() (*grpc.ClientConn, error) {
	options := []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(messageBytesMax),
			grpc.MaxCallSendMsgSize(messageBytesMax),
		),
		// Our own loops decide when to try again; grpc's would hide losses from them.
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		// A sidecar is next door; a proxy from the environment is for the internet.
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{
				BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second,
			},
			MinConnectTimeout: 5 * time.Second,
		}),
		// Finds a half-open connection where a stream has no ping of its own.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithTransportCredentials(d.credentials()),
	}
	target, dial := d.endpoint.target, d.dial
	if path, isSocket := strings.CutPrefix(target, "unix://"); isSocket {
		// Not by grpc, to which a path is a part of a URL.
		target = "passthrough:///localhost"
		if dial == nil {
			dial = func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "unix", path) }
		}
	}
	if dial != nil {
		options = append(options, grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return dial(ctx)
		}))
	}
	conn, err := grpc.NewClient(target, options...)
	if err != nil {
		return nil, newError(ErrConnectionLost, err.Error())
	}
	return conn, nil
}

func (d *dialer) credentials() credentials.TransportCredentials {
	if !d.endpoint.secure {
		return insecure.NewCredentials()
	}
	config := d.tls
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return credentials.NewTLS(config)
}

// outgoing adds who is calling. The token is read here, so a renewed file is used at once.
func (d *dialer) outgoing(ctx context.Context) (context.Context, error) {
	token, err := resolveToken(d.token, d.env)
	if err != nil {
		return nil, err
	}
	pairs := []string{"callgate-client", "callgate-go/" + Version}
	if token != "" {
		pairs = append(pairs, "authorization", "Bearer "+token)
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...), nil
}

// sharedConn is one connection for many rpcs, opened with the first of them. For any goroutine.
type sharedConn struct {
	dialer  *dialer
	timeout time.Duration

	mu     sync.Mutex
	conn   *grpc.ClientConn
	closed bool
}

// get is the connection; grpc makes it anew by itself after a loss.
func (s *sharedConn) get() (*grpc.ClientConn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, newError(ErrClosed, "the client is closed")
	}
	if s.conn == nil {
		conn, err := s.dialer.open()
		if err != nil {
			return nil, err
		}
		s.conn = conn
	}
	return s.conn, nil
}

// close ends it, and with it every rpc that still runs.
func (s *sharedConn) close() {
	s.mu.Lock()
	conn := s.conn
	s.conn, s.closed = nil, true
	s.mu.Unlock()
	if conn != nil {
		_ = conn.Close()
	}
}

// ask runs one unary rpc within the time for one answer, and within ctx.
func ask[Request, Response any](
	ctx context.Context,
	shared *sharedConn,
	method func(*grpc.ClientConn) func(context.Context, Request, ...grpc.CallOption) (Response, error),
	request Request,
) (Response, error) {
	var none Response
	conn, err := shared.get()
	if err != nil {
		return none, err
	}
	own, cancel := context.WithTimeout(ctx, shared.timeout)
	defer cancel()
	own, err = shared.dialer.outgoing(own)
	if err != nil {
		return none, err
	}
	answer, err := method(conn)(own, request)
	if err == nil {
		return answer, nil
	}
	failure := errorFromGRPC(err)
	if ctx.Err() != nil {
		failure.cause = context.Cause(ctx)
	}
	return none, failure
}
