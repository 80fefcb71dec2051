// Package fake is a sidecar in this process that decides nothing: for callgatetest, and for the tests
// of the client. It checks no schema, keeps nothing, and asks only for what it is told to ask for.
package fake

import (
	"context"
	"crypto/rand"
	"sync"
	"time"
)

// State is everything that the fake sidecar holds, behind one lock, and a way to wait for a change of it.
type State struct {
	mu      sync.Mutex
	changed chan struct{}
}

func newState() *State { return &State{changed: make(chan struct{})} }

// touch says that something has happened. Under the lock.
func (s *State) touch() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Do runs something under the lock and says that something has happened.
func (s *State) Do(act func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	act()
	s.touch()
}

// Until returns once the condition holds, which is looked at under the lock after everything that happens.
// False: ctx was done first.
func (s *State) Until(ctx context.Context, condition func() bool) bool {
	for {
		s.mu.Lock()
		holds, changed := condition(), s.changed
		s.mu.Unlock()
		if holds {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

func newID() string { return rand.Text() }

func nowMs() uint64 { return uint64(time.Now().UnixMilli()) }
