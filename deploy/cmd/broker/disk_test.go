package main

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/sys/unix"

	"github.com/liquida/liquida/platform/kit"
	"github.com/liquida/liquida/platform/settings"
)

// While no file of the broker can grow past 64 KiB it exits and says why. It does not answer with an error and go on.
// The offsets that were acknowledged before are still there when there is space again. For records TestBrokerDiskFull
// shows it.
func TestFullDisk(t *testing.T) {
	b := newBroker(t)
	b.start()
	b.createTopic("payments", 1)
	admin := kadm.NewClient(b.client())
	acknowledged := int64(0)
	alive, ended := context.WithTimeout(t.Context(), 30*time.Second)
	defer ended()
	commit := func(ctx context.Context) error {
		offsets := kadm.Offsets{}
		offsets.Add(kadm.Offset{Topic: "payments", Partition: 0, At: acknowledged + 1, LeaderEpoch: -1,
			Metadata: strings.Repeat("x", 1000)})

		err := admin.CommitAllOffsets(ctx, "engine", offsets)
		if err == nil {
			acknowledged++
		}

		return err
	}
	check := func() {
		t.Helper()
		fetched, err := admin.FetchOffsets(t.Context(), "engine")
		kit.Must(t, err)

		if committed, _ := fetched.Lookup("payments", 0); committed.At != acknowledged {
			t.Errorf("the group's offset is %d, the last one that was acknowledged %d", committed.At, acknowledged)
		}
	}
	limit := unix.Rlimit{Cur: 64 << 10, Max: unix.RLIM_INFINITY}
	kit.Must(t, unix.Prlimit(b.Process.Process.Pid, unix.RLIMIT_FSIZE, &limit, nil))

	go func() { <-b.Exited; ended() }()

	for commit(alive) == nil {
	}

	if <-alive.Done(); alive.Err() != context.Canceled {
		t.Fatal("the broker lives on with a full disk")
	}

	if code := b.ExitCode(); code != settings.ExitFailure || !strings.Contains(b.Log(), "BROKER_DATA_DIR "+b.dir) {
		t.Errorf("it ended with exit code %d, and said %q", code, b.Log())
	}
	b.start()
	check()
	// Entries behind the unfinished one must be readable, too.
	kit.Must(t, commit(t.Context()))
	b.End(syscall.SIGKILL)
	b.start()
	check()
}
