package kafka

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/liquida/liquida/platform/kit"
)

// Jars that are not those of the checksums never get into the cache.
func TestOtherJarsAreRefused(t *testing.T) {
	path, cache := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	t.Setenv("LIQUIDA_CACHE", cache)
	kit.Must(t, os.WriteFile(filepath.Join(path, "java"), nil, 0o755))
	kit.Must(t, os.WriteFile(filepath.Join(path, "mvn"),
		[]byte("#!/bin/sh\nmkdir libs; echo x >libs/HdrHistogram-2.2.2.jar\n"), 0o755))
	kit.Says(t, kit.ErrorOf(Locate(t.Context(), io.Discard)), "1 computed checksum did NOT match", "not the files")

	if _, err := os.Stat(filepath.Join(cache, "kafka", Version, "libs")); err == nil {
		t.Error("they are in the cache")
	}
}
