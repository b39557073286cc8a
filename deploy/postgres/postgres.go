// Package postgres runs a PostgreSQL server of the system's packages on data of its own, for
// comparisons and tests. Nothing else in the project needs PostgreSQL.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/liquida/liquida/deploy/child"
	"github.com/liquida/liquida/platform/ports"
)

// ErrNotInstalled says how to install the server.
var ErrNotInstalled = errors.New("PostgreSQL is not installed: no postgres and initdb on PATH or in /usr/lib/postgresql/*/bin; install it with: apt-get install postgresql")

// Locate returns the folder of the server's programs: the one on PATH, else the newest of Debian's
// packages, which are not on PATH.
func Locate() (string, error) {
	folders, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return "", err
	}
	slices.SortFunc(folders, func(a, b string) int { return version(b) - version(a) })
	if onPath, err := exec.LookPath("postgres"); err == nil {
		if onPath, err = filepath.EvalSymlinks(onPath); err == nil { // initdb is beside the file, not beside the link
			folders = slices.Insert(folders, 0, filepath.Dir(onPath))
		}
	}
	for _, folder := range folders {
		if _, err := exec.LookPath(filepath.Join(folder, "initdb")); err == nil {
			return folder, nil
		}
	}
	return "", ErrNotInstalled
}

// version returns 15 for /usr/lib/postgresql/15/bin.
func version(folder string) int {
	number, _ := strconv.Atoi(filepath.Base(filepath.Dir(folder)))
	return number
}

// Server is a running server with a new, empty cluster.
type Server struct {
	URL     string // of its database, for any client
	Version string
	PID     int // of the postmaster; its children do the work

	dir     string
	process *child.Server
}

// answerTimeout is generous: the machine may be busy.
const answerTimeout = time.Minute

// Start creates a cluster in dir, which must not exist, and runs a server on it until Stop. The
// server never outlives this process. settings are NAME=value of postgresql.conf. It listens on
// a free port of 127.0.0.1 only, where everyone on this machine may connect.
func Start(ctx context.Context, dir string, settings []string) (s *Server, err error) {
	bin, err := Locate()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	s = &Server{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	account, err := serverAccount(dir)
	if err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata", filepath.Join(dir, "data"),
		"--username=liquida", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync") // no-sync: it is still empty
	initdb.SysProcAttr, initdb.Dir = account, dir
	if output, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("cannot create a PostgreSQL cluster in %s: %w\n%s", dir, err, output)
	}
	said, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return nil, err
	}
	s.Version = string(said[:max(0, len(said)-1)])
	return s, s.run(ctx, bin, account, settings)
}

func (s *Server) run(ctx context.Context, bin string, account *syscall.SysProcAttr, settings []string) error {
	address := ports.Free()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	server := exec.Command(filepath.Join(bin, "postgres"), "-D", filepath.Join(s.dir, "data"),
		"-c", "listen_addresses="+host, "-c", "port="+port, "-c", "unix_socket_directories=")
	for _, setting := range settings {
		server.Args = append(server.Args, "-c", setting)
	}
	server.SysProcAttr, server.Dir = account, s.dir
	if s.process, err = child.Start(server, filepath.Join(s.dir, "postgres.log"), syscall.SIGQUIT); err != nil {
		return err
	}
	s.PID, s.URL = s.process.PID, fmt.Sprintf("postgres://liquida@%s/postgres?sslmode=disable", address)
	return s.process.Await(ctx, "the PostgreSQL server on "+address, answerTimeout, func([]byte) bool {
		return exec.Command(filepath.Join(bin, "pg_isready"), "--quiet", "--host="+host, "--port="+port).Run() == nil
	})
}

// Stop ends the server at once and removes its data.
func (s *Server) Stop() error {
	s.process.Stop()
	return os.RemoveAll(s.dir)
}

// serverAccount returns the user that the server runs as, and gives it dir: PostgreSQL refuses to
// run as root.
func serverAccount(dir string) (*syscall.SysProcAttr, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	other, err := user.Lookup("postgres") // created by the packages
	if err != nil {
		if other, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody: %w", err)
		}
	}
	uid, err := strconv.Atoi(other.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(other.Gid)
	if err != nil {
		return nil, err
	}
	attributes := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	if err := os.Chown(dir, uid, gid); err != nil {
		return nil, err
	}
	look := exec.Command("ls", dir)
	look.SysProcAttr = attributes
	if output, err := look.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("PostgreSQL refuses to run as root, and user %s cannot reach %s (each folder above it needs the permission x for others): %w\n%s", other.Username, dir, err, output)
	}
	return attributes, nil
}
