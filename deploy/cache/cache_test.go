package cache

import (
	"bytes"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/liquida/liquida/platform/kit"
)

func TestLockIsHeldByOne(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	unlock, err := Lock(t.Context(), folder, io.Discard)
	kit.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()

	var said bytes.Buffer
	if _, err := Lock(ctx, folder, &said); err == nil || strings.Count(said.String(), "waiting") != 1 {
		t.Errorf("a second lock: %v; it said %q", err, said.String())
	}
	unlock()
	again, err := Lock(t.Context(), folder, io.Discard)
	kit.Must(t, err)
	again()
}
