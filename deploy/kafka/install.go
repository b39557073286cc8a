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
	"strings"

	"github.com/liquida/liquida/deploy/cache"
)

// ErrMissing is returned by Locate if a tool that it needs is not installed.
var ErrMissing = errors.New("Apache Kafka cannot run here")

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
	full := func() bool { there, err := cache.Exists(k.libs()); return there && err == nil }

	var missing []string
	if k.java, err = exec.LookPath("java"); err != nil {
		missing = append(missing, "Java 17 or later (on Debian: openjdk-17-jre-headless)")
	}

	if _, err := exec.LookPath("mvn"); err != nil && !full() {
		missing = append(missing, "Maven's mvn, which fetches it (on Debian: maven)")
	}

	if len(missing) > 0 {
		return nil, fmt.Errorf("%w: missing %s; install that, or use the embedded broker", ErrMissing,
			strings.Join(missing, " and "))
	}

	return k, cache.Fill(ctx, folder, progress, full, func() error {
		fmt.Fprintf(progress, "fetching Apache Kafka %s with Maven, once, into %s (44 MB)\n", Version, folder)

		if err := k.fetch(ctx); err != nil {
			return fmt.Errorf("cannot fetch Apache Kafka %s: %w", Version, err)
		}

		return nil
	})
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
	if err := cache.Run(ctx, project, nil, "mvn", "--quiet", "--batch-mode", "--strict-checksums",
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=libs"); err != nil {
		return fmt.Errorf("%w\nIt needs a Maven repository to fetch from: see the settings.xml of your Maven", err)
	}

	libs := filepath.Join(project, "libs")
	if err := cache.Run(ctx, libs, nil, "sha256sum", "--check", "--strict", "--quiet", "../jars.sha256"); err != nil {
		return fmt.Errorf("these are not the files that this project was tested with; ask the operator of your Maven repository: %w",
			err)
	}

	return os.Rename(libs, k.libs())
}
