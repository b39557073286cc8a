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

func TestFolder(t *testing.T) {
	root := t.TempDir()
	t.Setenv("LIQUIDA_CACHE", root)

	if got, err := Folder("kafka", "4"); err != nil || got != filepath.Join(root, "kafka", "4") {
		t.Errorf("got %q, %v", got, err)
	}
}

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

func TestUnwritableCacheIsNamed(t *testing.T) {
	kit.Says(t, kit.ErrorOf(Lock(t.Context(), "/dev/null/cache", io.Discard)), "LIQUIDA_CACHE")
}
