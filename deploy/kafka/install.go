package kafka

import (
	"context"
	"embed"
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

	"github.com/liquida/liquida/deploy/cache"
)

// ErrMissing is returned by Locate if a tool that it needs is not installed.
var ErrMissing = errors.New("Apache Kafka cannot run here")

const oldestJava = 17

// maven is the Maven project that names Kafka, and the checksums of all its jars.
//
//go:embed maven
var maven embed.FS

// Kafka is an Apache Kafka that is ready to run.
type Kafka struct{ java, folder string }

// libs is the folder of the jars.
func (k *Kafka) libs() string { return filepath.Join(k.folder, "libs") }

// Locate returns the Apache Kafka in the cache, see cache.Folder. The first call on a machine
// fetches it with Maven. Locate writes to progress what it does.
func Locate(ctx context.Context, progress io.Writer) (*Kafka, error) {
	folder, err := cache.Folder("kafka", Version)
	if err != nil {
		return nil, err
	}
	k := &Kafka{folder: folder}
	var missing []string
	if k.java, err = findJava(ctx); err != nil {
		missing = append(missing, err.Error())
	}
	fetched, err := cache.Exists(k.libs())
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("mvn"); err != nil && !fetched {
		missing = append(missing, "Maven's mvn, which fetches it (on Debian: maven)")
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: missing %s; install that, or use the embedded broker", ErrMissing, strings.Join(missing, " and "))
	}
	if fetched {
		return k, nil
	}
	unlock, err := cache.Lock(ctx, folder, progress)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if fetched, err = cache.Exists(k.libs()); err != nil || fetched { // another process has done it meanwhile
		return k, err
	}
	fmt.Fprintf(progress, "fetching Apache Kafka %s with Maven, once, into %s (44 MB)\n", Version, folder)
	if err := k.fetch(ctx); err != nil {
		return nil, fmt.Errorf("cannot fetch Apache Kafka %s: %w", Version, err)
	}
	return k, nil
}

var javaVersion = regexp.MustCompile(`version "((?:1\.)?(\d+)[0-9A-Za-z._+-]*)"`)

// findJava returns the path of the Java on PATH, or an error that says what is wrong with it.
func findJava(ctx context.Context) (string, error) {
	need := fmt.Sprintf("Java %d or later (on Debian: openjdk-17-jre-headless)", oldestJava)
	path, err := exec.LookPath("java")
	if err != nil {
		return "", errors.New(need)
	}
	said, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	found := javaVersion.FindSubmatch(said)
	if err != nil || found == nil {
		return "", fmt.Errorf("%s; %s does not tell its version: %w", need, path, errors.Join(err, fmt.Errorf("it says %q", said)))
	}
	if major, _ := strconv.Atoi(string(found[2])); major < oldestJava {
		return "", fmt.Errorf("%s; %s is version %s", need, path, found[1])
	}
	return path, nil
}

// fetch puts the verified jars into libs, or nothing.
func (k *Kafka) fetch(ctx context.Context) error {
	scratch, err := os.MkdirTemp(k.folder, "fetch-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if err := os.CopyFS(scratch, maven); err != nil {
		return err
	}
	project := filepath.Join(scratch, "maven")
	if said, err := run(ctx, project, "mvn", "--quiet", "--batch-mode", "--strict-checksums",
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs"); err != nil {
		return fmt.Errorf("%w:\n%s\nIt needs a Maven repository to fetch from: see the settings.xml of your Maven", err, said)
	}
	libs := filepath.Join(project, "libs")
	if said, err := run(ctx, libs, "sha256sum", "--check", "--strict", "--quiet", "../jars.sha256"); err != nil {
		return fmt.Errorf("these are not the files that this project was tested with; ask the operator of your Maven repository: %w:\n%s", err, said)
	}
	return os.Rename(libs, k.libs())
}

// run runs a tool in a folder, and returns the end of what it says.
func run(ctx context.Context, folder, name string, arguments ...string) (said string, err error) {
	c := exec.CommandContext(ctx, name, arguments...)
	c.Dir = folder
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // mvn is a script: an interruption ends its children, too
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	text, err := c.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return cache.LastLines(text), err
}
