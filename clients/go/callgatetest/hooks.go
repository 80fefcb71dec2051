// One hook, asked directly.

package callgatetest

import (
	"context"

	callgate "callgate.invalid/clients/go"
)

// AskHook asks a hook as the sidecar would, in this process and on this goroutine, and returns what it says:
// a callgate.Before, After, ApprovalAnswer or LoopAnswer, or nil of who is only told. The hook is that of
// asked.HookID at asked.Point, or with an empty id the only one of that point.
func AskHook(ctx context.Context, hooks *callgate.Hooks, asked callgate.HookInput) (any, error) {
	return hooks.AskForTest(ctx, asked)
}
