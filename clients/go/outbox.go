// What waits to be written to one stream, and the one goroutine that writes it.
//
// Never blocks who says something. What must not be lost with a stream is not only here.

package callgate

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
)

// outbox has two lanes: control goes ahead of work. For any goroutine.
type outbox[M any] struct {
	mu         sync.Mutex
	control    []M
	work       []M
	halfClosed bool
	wake       chan struct{}
}

func newOutbox[M any]() *outbox[M] { return &outbox[M]{wake: make(chan struct{}, 1)} }

// say puts a message ahead of work.
func (o *outbox[M]) say(message M) {
	o.mu.Lock()
	o.control = append(o.control, message)
	o.mu.Unlock()
	o.poke()
}

// sayWork puts a message behind everything that was said before.
func (o *outbox[M]) sayWork(message M) {
	o.mu.Lock()
	o.work = append(o.work, message)
	o.mu.Unlock()
	o.poke()
}

// halfClose ends our half of the stream behind what waits.
func (o *outbox[M]) halfClose() {
	o.mu.Lock()
	o.halfClosed = true
	o.mu.Unlock()
	o.poke()
}

func (o *outbox[M]) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// next is what to write now. Without a message, done says whether nothing more will come.
func (o *outbox[M]) next() (message M, found, done bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lane := &o.control
	if len(*lane) == 0 {
		lane = &o.work
	}
	if len(*lane) == 0 {
		return message, false, o.halfClosed
	}
	message = (*lane)[0]
	var none M
	(*lane)[0] = none
	*lane = (*lane)[1:]
	return message, true, false
}

// write sends until our half has ended, ctx is done or a send fails.
func (o *outbox[M]) write(ctx context.Context, send func(M) error, closeSend func() error) error {
	for {
		message, found, done := o.next()
		switch {
		case found:
			if err := send(message); err != nil {
				return err
			}
		case done:
			return closeSend()
		default:
			select {
			case <-o.wake:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// takeWork is the work that was not written.
func (o *outbox[M]) takeWork() []M {
	o.mu.Lock()
	defer o.mu.Unlock()
	left := o.work
	o.work = nil
	return left
}

// newID is a random UUID.
func newID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:])
	raw[6] = raw[6]&0x0f | 0x40
	raw[8] = raw[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", raw[0:4], raw[4:6], raw[6:8], raw[8:10], raw[10:])
}

// gate is a condition that comes and goes, to be waited for.
type gate struct {
	mu   sync.Mutex
	open bool
	ch   chan struct{}
}

func newGate() *gate { return &gate{ch: make(chan struct{})} }

func (g *gate) set() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		g.open = true
		close(g.ch)
	}
}

func (g *gate) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open {
		g.open = false
		g.ch = make(chan struct{})
	}
}

// wait is closed once the condition holds.
func (g *gate) wait() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ch
}
