// Watches approvals across lost streams.
//
// Never loses an update and never passes one on twice: where the watch stands is what its reader has
// received.

package callgate

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"callgate.invalid/clients/go/internal/pb"
)

// The sidecar says something every 15 s; a stream that is silent for three times that is dead.
const watchSilence = 45 * time.Second

// ApprovalWatch is what waits, then every change. For one reader at a time.
//
// As long as it is read, an approver counts as attached.
type ApprovalWatch struct {
	approvals *Approvals
	filter    *pb.ApprovalFilter
	cursor    string
	waits     *waits

	awaySince time.Time
	stream    pb.ApprovalService_WatchApprovalsClient
	cancel    context.CancelFunc
	// The parts of a snapshot that has not come whole: it is all or nothing.
	inSnapshot bool
	snapshot   []*Approval
}

// Watch tells what waits, and then every change, also one out of the filter once.
//
// The first update is a snapshot, and so is one after a loss that was too long to be told change by
// change. A cursor resumes a watch of another process: without a first snapshot, unless it is too old.
// Close it, or end the context of its reads.
func (a *Approvals) Watch(filter ApprovalFilter, afterCursor string) (*ApprovalWatch, error) {
	wanted, err := filter.message()
	if err != nil {
		return nil, err
	}
	return &ApprovalWatch{
		approvals: a, filter: wanted, cursor: afterCursor, waits: newWaits(a.options.backoff),
	}, nil
}

// Cursor is behind the last update that was received, for Approvals.Watch in another process.
func (w *ApprovalWatch) Cursor() string { return w.cursor }

// Close ends the stream. May be called twice, and by its reader only.
func (w *ApprovalWatch) Close() {
	if w.cancel != nil {
		w.cancel()
	}
	w.stream, w.cancel = nil, nil
}

// Updates are the updates, to range over. An error is the last; the stream ends with the loop.
func (w *ApprovalWatch) Updates(ctx context.Context) iter.Seq2[*ApprovalUpdate, error] {
	return func(yield func(*ApprovalUpdate, error) bool) {
		defer w.Close()
		for {
			update, err := w.Next(ctx)
			if !yield(update, err) || err != nil {
				return
			}
		}
	}
}

// Next is the next update. When ctx is done first, nothing is lost: the next Next goes on.
//
// Fails with ErrConnectionLost if the sidecar stayed away for the time of WithReconnectTimeout, and with
// what no other try can help.
func (w *ApprovalWatch) Next(ctx context.Context) (*ApprovalUpdate, error) {
	for {
		if w.approvals.ctx.Err() != nil {
			return nil, newError(ErrClosed, "the client is closed")
		}
		update, err := w.read(ctx)
		if err == nil {
			if update != nil {
				return update, nil
			}
			continue
		}
		w.Close()
		if ctx.Err() != nil {
			return nil, contextError(ctx)
		}
		if w.approvals.ctx.Err() != nil {
			continue
		}
		if err := w.recover(ctx, errorFromGRPC(err)); err != nil {
			return nil, err
		}
	}
}

// read is one message; nil if it says nothing yet.
func (w *ApprovalWatch) read(ctx context.Context) (*ApprovalUpdate, error) {
	if w.stream == nil {
		if err := w.open(); err != nil {
			return nil, err
		}
	}
	// The stream lives longer than one read, so both of its ends are watched from outside.
	cancel := w.cancel
	unwatch := context.AfterFunc(ctx, cancel)
	silence := time.AfterFunc(watchSilence, cancel)
	message, err := w.stream.Recv()
	isLate := !silence.Stop()
	if !unwatch() && ctx.Err() != nil && err == nil {
		// It came as the reader went; the cursor has not moved, so it comes again.
		return nil, ctx.Err()
	}
	switch {
	case errors.Is(err, io.EOF):
		return nil, newError(ErrConnectionLost, "the sidecar ended the watch")
	case err != nil && isLate:
		return nil, newError(ErrConnectionLost, "nothing came for too long")
	case err != nil:
		return nil, err
	}
	w.awaySince = time.Time{}
	w.waits.ready()
	return w.take(message), nil
}

func (w *ApprovalWatch) open() error {
	conn, err := w.approvals.shared.get()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(w.approvals.ctx)
	outgoing, err := w.approvals.shared.dialer.outgoing(ctx)
	if err != nil {
		cancel()
		return err
	}
	stream, err := pb.NewApprovalServiceClient(conn).WatchApprovals(outgoing,
		&pb.WatchApprovalsRequest{Filter: w.filter, AfterCursor: w.cursor})
	if err != nil {
		cancel()
		return err
	}
	w.stream, w.cancel = stream, cancel
	w.inSnapshot, w.snapshot = w.cursor == "", nil
	return nil
}

func (w *ApprovalWatch) take(message *pb.WatchApprovalsResponse) *ApprovalUpdate {
	approvals := approvalsOf(message.GetApprovals())
	if w.inSnapshot {
		w.snapshot = append(w.snapshot, approvals...)
		if !message.GetSnapshotComplete() {
			return nil
		}
		approvals = w.snapshot
		w.inSnapshot, w.snapshot = false, nil
		w.cursor = textOr(message.GetCursor(), w.cursor)
		return &ApprovalUpdate{approvals, true, w.cursor}
	}
	w.cursor = textOr(message.GetCursor(), w.cursor)
	if len(approvals) == 0 {
		return nil
	}
	return &ApprovalUpdate{approvals, false, w.cursor}
}

// recover returns when another try may help, and fails if none can.
func (w *ApprovalWatch) recover(ctx context.Context, failure *Error) error {
	if failure.Code == "cursor_expired" && w.cursor != "" {
		w.approvals.options.log.Info("the watch of approvals begins anew", "error", failure)
		w.cursor = ""
		return nil
	}
	if !failure.isAny(ErrConnectionLost, ErrUnavailable, ErrLimitExceeded, ErrDeadlineExceeded) {
		return failure
	}
	if w.awaySince.IsZero() {
		w.awaySince = time.Now()
	}
	if time.Since(w.awaySince) >= w.approvals.options.reconnectTimeout {
		w.awaySince = time.Time{}
		return failure
	}
	w.approvals.options.log.Info("the watch of approvals ended", "error", failure)
	timer := time.NewTimer(max(w.waits.lost(), failure.RetryAfter))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.approvals.ctx.Done():
	}
	return nil
}
