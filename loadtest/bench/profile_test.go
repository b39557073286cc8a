package bench

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"
)

// go tool pprof is read right: the shares of functions, and that of the garbage collector. On a
// busy machine a short profile may have no sample of it, so profiles are taken until one has.
func TestTopOfAProfile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "profile.pb.gz")
	heap := make([]*[64]byte, 1<<20) // gives the collector work
	for i := range heap {
		heap[i] = new([64]byte)
	}
	deadline := time.Now().Add(2 * time.Minute)
	for lasts := 500 * time.Millisecond; ; lasts *= 2 {
		file, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); time.Since(began) < lasts; {
			runtime.GC()
		}
		pprof.StopCPUProfile()
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		functions, _, err := topOf(t.Context(), path, "-nodecount=5")
		if err != nil {
			t.Fatal(err)
		}
		_, share, err := topOf(t.Context(), path, "-nodecount=100000", "-nodefraction=0", "-focus="+collectors)
		if err != nil || share < 0 || share > 1 {
			t.Fatalf("the garbage collector's share is %v, %v", share, err)
		}
		if share > 0 && len(functions) > 0 {
			if len(functions) > 5 || functions[0].Name == "" || functions[0].All < functions[0].Self || functions[0].Self <= 0 {
				t.Errorf("the top is %+v", functions)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the garbage collector has no share of %v; the top is %+v", lasts, functions)
		}
	}
	runtime.KeepAlive(heap)
}
