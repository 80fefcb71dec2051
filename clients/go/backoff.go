// When to try again after a lost connection.

package callgate

import (
	"math/rand/v2"
	"time"
)

// Backoff makes exponential waits with full jitter.
//
// The jitter is taken below the capped span, so that clients that lost the same sidecar stay
// apart for good. Waits grow until a connection has lasted StableAfter: one that is made and lost
// at once is no success. Zero fields have the defaults.
type Backoff struct {
	// Initial is the longest first wait. Default 200 ms.
	Initial time.Duration
	// Cap is the longest wait of all. Default 15 s.
	Cap time.Duration
	// StableAfter is how long a connection lasts before waits begin anew. Default 1 min.
	StableAfter time.Duration
}

func (b Backoff) withDefaults() Backoff {
	if b.Initial == 0 {
		b.Initial = 200 * time.Millisecond
	}
	if b.Cap == 0 {
		b.Cap = 15 * time.Second
	}
	if b.StableAfter == 0 {
		b.StableAfter = time.Minute
	}
	return b
}

// span is the longest wait after so many failures in a row, from 0.
func (b Backoff) span(failures int) time.Duration {
	wait := b.Initial
	for ; failures > 0 && wait < b.Cap; failures-- {
		wait *= 2
	}
	return min(wait, b.Cap)
}

// waits are those of one connection that is made again and again. For one goroutine.
type waits struct {
	backoff    Backoff
	now        func() time.Time
	random     func() float64
	failures   int
	readySince time.Time
}

func newWaits(backoff Backoff) *waits {
	return &waits{backoff: backoff.withDefaults(), now: time.Now, random: rand.Float64}
}

// ready: the connection works, so far. Said again, it changes nothing.
func (w *waits) ready() {
	if w.readySince.IsZero() {
		w.readySince = w.now()
	}
}

// lost is how long to wait before the next try.
func (w *waits) lost() time.Duration {
	if !w.readySince.IsZero() && w.now().Sub(w.readySince) >= w.backoff.StableAfter {
		w.failures = 0
	}
	w.readySince = time.Time{}
	wait := time.Duration(w.random() * float64(w.backoff.span(w.failures)))
	w.failures++
	return wait
}

// between is a random span; low where high is below it.
func between(low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	return low + rand.N(high-low+1)
}
