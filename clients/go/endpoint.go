// Where the sidecar is and who we are: option, then environment, then default.

package callgate

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

const (
	socketName    = "callgate.sock"
	controlName   = "control.sock"
	socketPathMax = 107
)

// endpoint is one address; target is grpc's form of it.
type endpoint struct {
	text   string
	target string
	secure bool
	local  bool
}

type environment func(name string) string

// defaultEndpoint is the sidecar's default Unix socket.
func defaultEndpoint(env environment) string {
	if folder := env("CALLGATE_SOCKET_DIR"); folder != "" {
		return socketIn(folder)
	}
	if runtime := env("XDG_RUNTIME_DIR"); runtime != "" {
		return socketIn(filepath.Join(runtime, "callgate"))
	}
	if data := env("CALLGATE_DATA_DIR"); data != "" {
		return socketIn(filepath.Join(data, "run"))
	}
	state := env("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(env("HOME"), ".local", "state")
	}
	return socketIn(filepath.Join(state, "callgate", "run"))
}

func socketIn(folder string) string {
	if absolute, err := filepath.Abs(folder); err == nil {
		folder = absolute
	}
	return "unix://" + filepath.Join(folder, socketName)
}

// resolveEndpoint reads an endpoint. Fails with `endpoint_invalid`.
func resolveEndpoint(argument string, env environment) (endpoint, error) {
	text := argument
	if text == "" {
		text = env("CALLGATE_ENDPOINT")
	}
	if text == "" {
		text = defaultEndpoint(env)
	}
	return parseEndpoint(text)
}

// resolveControlEndpoint reads the endpoint of an approver or a hook.
//
// An argument is taken as it is. The environment and the default name the sidecar; if that is its
// socket `callgate.sock`, approvers and hooks are served at `control.sock` beside it.
func resolveControlEndpoint(argument string, env environment) (endpoint, error) {
	if argument != "" {
		return parseEndpoint(argument)
	}
	text := env("CALLGATE_ENDPOINT")
	if text == "" {
		text = defaultEndpoint(env)
	}
	return parseEndpoint(controlBeside(text))
}

// controlBeside is where the sidecar of that endpoint serves approvers and hooks, as far as its name tells.
func controlBeside(text string) string {
	if strings.HasPrefix(text, "unix://") && strings.HasSuffix(text, "/"+socketName) {
		return strings.TrimSuffix(text, socketName) + controlName
	}
	return text
}

func parseEndpoint(text string) (endpoint, error) {
	if path, isSocket := strings.CutPrefix(text, "unix://"); isSocket {
		if !strings.HasPrefix(path, "/") {
			return endpoint{}, invalidEndpoint(text, "a Unix socket needs an absolute path: unix:///run/callgate/callgate.sock")
		}
		if len(path) > socketPathMax {
			return endpoint{}, invalidEndpoint(text, fmt.Sprintf("the path is longer than %d bytes", socketPathMax))
		}
		return endpoint{text, "unix://" + path, false, true}, nil
	}
	parts, err := url.Parse(text)
	if err != nil {
		return endpoint{}, invalidEndpoint(text, err.Error())
	}
	switch parts.Scheme {
	case "http", "https":
		if parts.Hostname() == "" || parts.Port() == "" {
			return endpoint{}, invalidEndpoint(text, "it needs a host and a port")
		}
		if (parts.Path != "" && parts.Path != "/") || parts.RawQuery != "" || parts.User != nil {
			return endpoint{}, invalidEndpoint(text, "it has more than a host and a port")
		}
		// Resolved by the dialer of the standard library, which also tries several addresses.
		return endpoint{text, "passthrough:///" + parts.Host, parts.Scheme == "https", isLoopback(parts.Hostname())}, nil
	case "ws", "wss":
		return endpoint{}, invalidEndpoint(text, "this client speaks gRPC; name the same address with http or https")
	}
	return endpoint{}, invalidEndpoint(text, "it must begin with unix:///, http:// or https://")
}

func invalidEndpoint(text, why string) error {
	return codedError(ErrInvalidRequest, "endpoint_invalid", fmt.Sprintf("`%s` is not an endpoint: %s", text, why))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	address := net.ParseIP(host)
	return address != nil && address.IsLoopback()
}

// resolveToken is the bearer token, or nothing. A file is read anew each time, so that it may be
// renewed. Fails with `token_unreadable`.
func resolveToken(argument string, env environment) (string, error) {
	if argument != "" {
		return argument, nil
	}
	if token := env("CALLGATE_TOKEN"); token != "" {
		return token, nil
	}
	path := env("CALLGATE_TOKEN_FILE")
	if path == "" {
		return "", nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", codedError(errInternal, "token_unreadable", "CALLGATE_TOKEN_FILE cannot be read: "+err.Error())
	}
	return strings.TrimSpace(string(text)), nil
}
