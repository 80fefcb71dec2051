// One tool, run directly.

package callgatetest

import (
	"context"

	callgate "callgate.invalid/clients/go"
)

// CallTool runs a tool as an executor would, in this process and on this goroutine: the arguments go
// through JSON and the types of the function, panics and errors become results. Cancel ctx to tell the
// tool to stop. services may be nil.
func CallTool(ctx context.Context, tool *callgate.Definition, services *callgate.Services, arguments any) *callgate.CallResult {
	return tool.RunForTest(ctx, services, arguments)
}
