package bench

import (
	"context"
	"crypto/sha256"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"testing"
	"time"
)

// go tool pprof is read right: the shares of functions, and that of the garbage collector.
func TestTopOfAProfile(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "profile.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 500*time.Millisecond; {
		sha256.Sum256(make([]byte, 1<<16))
		runtime.GC()
	}
	pprof.StopCPUProfile()
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	functions, _, err := topOf(context.Background(), file.Name(), "-nodecount=5")
	if err != nil || len(functions) == 0 || len(functions) > 5 || functions[0].Name == "" || functions[0].All < functions[0].Self || functions[0].Self <= 0 {
		t.Errorf("the top is %+v, %v", functions, err)
	}
	if _, share, err := topOf(context.Background(), file.Name(), "-nodecount=100000", "-nodefraction=0", "-focus="+collectors); err != nil || share <= 0 || share > 1 {
		t.Errorf("the garbage collector's share is %v, %v", share, err)
	}
}
