// Package real has the tests of the client against the sidecar itself: run them with -tags real, and
// CALLGATE_BIN naming the binary.
package real
