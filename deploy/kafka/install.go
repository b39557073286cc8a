package kafka

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/liquida/liquida/deploy/cache"
	"github.com/liquida/liquida/deploy/child"
	"github.com/liquida/liquida/platform/ports"
)

// ErrMissing is returned by Locate if a tool that it needs is not installed.
var ErrMissing = errors.New("Apache Kafka cannot run here")

const oldestJava = 17

// maven is the Maven project that names Kafka, and the checksums of all its jars.
//
//go:embed maven
var maven embed.FS

// Kafka is an Apache Kafka that is ready to run.
type Kafka struct {
	java    string
	jars    []string
	archive string // of class data, written by this Java
}

// Locate returns the Apache Kafka in the cache, see cache.Folder. The first call on a machine
// fetches it with Maven and archives its classes as loaded: a later start takes one second
// instead of four. Locate writes to progress what it does.
func Locate(ctx context.Context, progress io.Writer) (*Kafka, error) {
	java, version, problem := findJava(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	folder, err := cache.Folder("kafka", Version)
	if err != nil {
		return nil, err
	}
	sums, err := checksums()
	if err != nil {
		return nil, err
	}
	libs := filepath.Join(folder, "libs")
	k := &Kafka{java: java, archive: filepath.Join(folder, "java-"+version+".jsa")}
	for _, sum := range sums {
		k.jars = append(k.jars, filepath.Join(libs, sum.jar))
	}
	fetched, err := cache.Exists(libs)
	if err != nil {
		return nil, err
	}
	var missing []string
	if problem != "" {
		missing = append(missing, problem)
	}
	if _, err := exec.LookPath("mvn"); err != nil && !fetched {
		missing = append(missing, "Maven's mvn, which fetches it (on Debian: maven)")
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: missing %s; install that, or use the embedded broker", ErrMissing, strings.Join(missing, " and "))
	}
	if archived, err := cache.Exists(k.archive); err != nil || fetched && archived {
		return k, err
	}

	unlock, err := cache.Lock(ctx, folder, progress)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Both are renamed into place when complete. Another process may have done it meanwhile.
	if fetched, err = cache.Exists(libs); err == nil && !fetched {
		fmt.Fprintf(progress, "fetching Apache Kafka %s with Maven, once, into %s (44 MB)\n", Version, folder)
		err = fetch(ctx, folder, libs, sums)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot fetch Apache Kafka %s: %w", Version, err)
	}
	archived, err := cache.Exists(k.archive)
	if err == nil && !archived {
		fmt.Fprintf(progress, "archiving Apache Kafka's classes, once for Java %s (about 10 s)\n", version)
		err = k.makeArchive(ctx, folder)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot archive the classes of Apache Kafka %s: %w", Version, err)
	}
	return k, nil
}

var javaVersion = regexp.MustCompile(`version "((?:1\.)?(\d+)[0-9A-Za-z._+-]*)"`)

// findJava returns path and version of the Java on PATH, or an error that says what is wrong with it.
func findJava(ctx context.Context) (path, version, problem string) {
	need := fmt.Sprintf("Java %d or later (on Debian: openjdk-17-jre-headless)", oldestJava)
	path, err := exec.LookPath("java")
	if err != nil {
		return "", "", need
	}
	said, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	found := javaVersion.FindSubmatch(said)
	if err != nil || found == nil {
		return "", "", fmt.Sprintf("%s; %s does not tell its version (%v): %q", need, path, err, said)
	}
	if major, _ := strconv.Atoi(string(found[2])); major < oldestJava {
		return "", "", fmt.Sprintf("%s; %s is version %s", need, path, found[1])
	}
	return path, string(found[1]), ""
}

type checksum struct{ sha256, jar string }

// checksums returns the checksum of every jar, in the order of the class path.
func checksums() ([]checksum, error) {
	text, err := maven.ReadFile("maven/jars.sha256")
	if err != nil {
		return nil, err
	}
	var all []checksum
	for line := range strings.Lines(string(text)) {
		sum, jar, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok {
			return nil, fmt.Errorf("jars.sha256 holds %q", line)
		}
		all = append(all, checksum{sum, jar})
	}
	return all, nil
}

// fetch puts the verified jars into libs, or nothing.
func fetch(ctx context.Context, folder, libs string, sums []checksum) error {
	scratch, err := os.MkdirTemp(folder, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	pom, err := maven.ReadFile("maven/pom.xml")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(scratch, "pom.xml"), pom, 0o644); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, "mvn", "--quiet", "--batch-mode", "--strict-checksums",
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs")
	c.Dir = scratch
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // mvn is a script: an interruption ends its children, too
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	if said, err := c.CombinedOutput(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("mvn: %w:\n%s\nIt needs a Maven repository to fetch from: see the settings.xml of your Maven", err, cache.LastLines(said))
	}
	fetched := filepath.Join(scratch, "libs")
	for _, sum := range sums {
		if err := verify(filepath.Join(fetched, sum.jar), sum.sha256); err != nil {
			return err
		}
	}
	return os.Rename(fetched, libs)
}

func verify(path, want string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("Maven did not fetch everything: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		return fmt.Errorf("%s has the SHA-256 %s and must have %s: it is not the file that this project was tested with; ask the operator of your Maven repository", filepath.Base(path), got, want)
	}
	return nil
}

// makeArchive runs a broker until it answers, then ends it. At its end Java writes down the classes
// that it has loaded.
func (k *Kafka) makeArchive(ctx context.Context, folder string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("it took longer than two minutes"))
	defer cancel()
	scratch, err := os.MkdirTemp(folder, "archive-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	node := Node{Folder: filepath.Join(scratch, "node"), Address: ports.Free(), Controller: ports.Free()}
	if err := k.Prepare(ctx, node); err != nil {
		return err
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(node.Address))
	if err != nil {
		return err
	}
	defer client.Close()
	made, log := filepath.Join(scratch, "jsa"), filepath.Join(scratch, "log")
	java, arguments := k.command("-XX:ArchiveClassesAtExit="+made, node)
	broker, err := child.Start(exec.Command(java, arguments...), log)
	if err != nil {
		return fmt.Errorf("cannot start %s: %w", java, err)
	}
	defer broker.Stop()
	if err := broker.Await(ctx, "Apache Kafka", time.Minute, func([]byte) bool { return client.Ping(ctx) == nil }); err != nil {
		return err
	}
	_ = syscall.Kill(broker.PID, syscall.SIGTERM)
	select {
	case <-broker.Ended:
		err = os.Rename(made, k.archive)
	case <-ctx.Done():
		err = fmt.Errorf("%s does not end after SIGTERM: %w", java, context.Cause(ctx))
	}
	if err != nil {
		said, _ := os.ReadFile(log)
		err = fmt.Errorf("%w; Java said:\n%s", err, cache.LastLines(said))
	}
	return err
}
