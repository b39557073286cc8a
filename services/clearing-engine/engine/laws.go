package engine

import "fmt"

// broken ends the process because a law about the engine's own state does not hold. It
// panics, where an unexpected result calls fail: this state is wrong, so not even its own
// goroutine may go on to write, send or commit. A restart is safe, as ever.
func broken(law string, args ...any) {
	panic("broken law: " + fmt.Sprintf(law, args...))
}
