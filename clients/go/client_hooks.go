// Hooks that belong to a client: made with first use, started and closed with it.
//
// Never connects anything for a client that uses none.

package callgate

import "context"

// WithHooksEndpoint is where the hooks of a Client connect. Without it that is the same sidecar; where
// that is its socket `callgate.sock`, the `control.sock` beside it.
func WithHooksEndpoint(endpoint string) Option {
	return func(o *options) { o.hooksEndpoint = endpoint }
}

// WithHooksToken is the credential of a hook, for the hooks of a Client over TCP.
func WithHooksToken(token string) Option { return func(o *options) { o.hooksToken = token } }

// Hooks are the hooks of this process, over a connection of their own, since hooks are only heard at the
// control socket.
//
// Add them before the client is started. Its Start, WaitReady, Serve, Run and Close are theirs, too.
func (c *Client) Hooks() *Hooks {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hooks != nil {
		return c.hooks
	}
	own := *c.options
	// The client's own token is for other roles.
	own.token = own.hooksToken
	made := &Hooks{
		options: &own, instanceID: newID(), handlers: map[string]map[HookPoint]hookFunc{}, sealed: c.hooksSealed,
	}
	where, err := parseEndpoint(textOr(own.hooksEndpoint, controlBeside(c.dialer.endpoint.text)))
	if err != nil {
		made.problem = err
	}
	made.dialer = own.dialer(where)
	c.hooks = made
	return made
}

// any says whether a hook was added, well or not.
func (h *Hooks) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.specs) > 0 || h.problem != nil
}

func (h *Hooks) seal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sealed = true
}

// ownHooks are the client's hooks, if it has any.
func (c *Client) ownHooks() *Hooks {
	c.mu.Lock()
	hooks := c.hooks
	c.mu.Unlock()
	if hooks == nil || !hooks.any() {
		return nil
	}
	return hooks
}

// startHooks begins to connect them. From then on none can be added, which nobody would ask.
func (c *Client) startHooks() error {
	c.mu.Lock()
	c.hooksSealed = true
	hooks := c.hooks
	c.mu.Unlock()
	if hooks == nil {
		return nil
	}
	if !hooks.any() {
		hooks.seal()
		return nil
	}
	return hooks.Start()
}

// checkHooks refuses to run turns past hooks that nobody would ask.
func (c *Client) checkHooks() error {
	c.mu.Lock()
	started := c.hooksSealed
	c.mu.Unlock()
	if !started && c.ownHooks() != nil {
		return codedError(ErrConflict, "client_not_started", "the client has hooks: start it before its turns")
	}
	return nil
}

// waitHooks returns when the sidecar has taken the hooks; at once without any.
func (c *Client) waitHooks(ctx context.Context) error {
	if hooks := c.ownHooks(); hooks != nil {
		return hooks.WaitReady(ctx)
	}
	return nil
}

// hooksEnded is closed when the hooks have ended for good. Nil: there are none.
func (c *Client) hooksEnded() (<-chan struct{}, func() error) {
	hooks := c.ownHooks()
	if hooks == nil {
		return nil, func() error { return nil }
	}
	hooks.mu.Lock()
	stream := hooks.stream
	hooks.mu.Unlock()
	if stream == nil {
		return nil, func() error { return nil }
	}
	return stream.ended, func() error { return stream.err }
}

func (c *Client) closeHooks() {
	if hooks := c.ownHooks(); hooks != nil {
		_ = hooks.Close()
	}
}

// AskForTest asks the hook of input.HookID at input.Point, or with an empty id the only one of that point,
// as the sidecar would. It is what callgatetest.AskHook uses.
//
// Fails as the hook does, or if there is no such hook, or several.
func (h *Hooks) AskForTest(ctx context.Context, input HookInput) (any, error) {
	h.mu.Lock()
	var wanted []hookFunc
	for id, handlers := range h.handlers {
		if function := handlers[input.Point]; function != nil && (input.HookID == "" || input.HookID == id) {
			wanted = append(wanted, function)
		}
	}
	h.mu.Unlock()
	if len(wanted) != 1 {
		return nil, newError(ErrNotFound, "one hook is wanted at "+string(input.Point))
	}
	return wanted[0](ctx, &input)
}
