package kit

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/liquida/liquida/platform/ports"
)

// S3 is a real server with a bucket, which keeps it in a folder.
type S3 struct {
	t                testing.TB
	address          string
	root, attributes string // folders of the objects, and of what is said of them
	process          *exec.Cmd
}

const bucket = "liquida"

// StartS3 starts the server that S3_SERVER names, a versitygw, and gives this process and those that it starts its
// credentials. Without one the test is skipped.
func StartS3(t testing.TB) *S3 {
	t.Helper()

	s := &S3{t: t, address: ports.Free(), root: t.TempDir(), attributes: t.TempDir()}
	if os.Getenv("S3_SERVER") == "" {
		t.Skip("S3_SERVER names no versitygw: make test-readers")
	}

	if err := os.Mkdir(filepath.Join(s.root, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
	t.Setenv("AWS_REGION", "us-east-1")
	s.Start()
	t.Cleanup(s.Kill)

	return s
}

// URL returns the place of an archive in the bucket.
func (s *S3) URL(prefix string) string {
	return "s3://" + bucket + "/" + prefix + "?use_path_style=true&endpoint=http://" + s.address
}

// Start starts the server, again after Kill.
func (s *S3) Start() {
	s.t.Helper()
	s.process = exec.Command(os.Getenv("S3_SERVER"), "--port", s.address, "--quiet", "posix", "--sidecar",
		s.attributes, s.root)
	s.process.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=test-secret")
	s.process.Stderr = os.Stderr

	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	Await(s.t, "the S3 server", func() (bool, string) {
		connection, err := net.Dial("tcp", s.address)
		if err != nil {
			return false, err.Error()
		}
		connection.Close()

		return true, ""
	})
}

// Kill kills the server, as a crash does. What is in the bucket stays.
func (s *S3) Kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait()
}
